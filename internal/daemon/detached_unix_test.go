//go:build unix

package daemon

import "syscall"

// detached gives a process a session of its own, so no controlling terminal.
func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
