package birth

import (
	"fmt"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	if os.Args[0] == Name {
		fmt.Println("born")
		os.Exit(0)
	}
	os.Exit(m.Run())
}
