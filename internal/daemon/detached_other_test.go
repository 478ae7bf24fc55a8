//go:build !unix

package daemon

import "syscall"

// detached is nothing here: this system does not tell the terminal of a process.
func detached() *syscall.SysProcAttr { return nil }
