//go:build !linux

package guest

// The guest agent runs on Linux, whatever the host is.

func Main() int     { return 125 }
func RootMain() int { return 125 }
