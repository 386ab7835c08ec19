//go:build race

package gateway

// raceDetector multiplies memory.
const raceDetector = true
