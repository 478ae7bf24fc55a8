//go:build !unix

package peers

import "os/exec"

func ownGroup(*exec.Cmd) {}

func endGroup(cmd *exec.Cmd) {
	_ = cmd.Process.Kill() // it may have ended
}
