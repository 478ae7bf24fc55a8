//go:build unix && !linux

package process

import "os/exec"

func startOwn(x *exec.Cmd) error { return x.Start() }

func waitOwn(x *exec.Cmd) error { return x.Wait() }

// IsInit is false: there are no containers here.
func IsInit() bool { return false }

// ReapAsInit has nothing to do: there are no containers here.
func ReapAsInit() (stop func()) { return func() {} }
