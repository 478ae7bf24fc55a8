//go:build unix

package process

import (
	"errors"
	"os/exec"
	"runtime"
	"strings"
)

// OpenBrowser shows an address in the browser of the person. It takes http and https alone, is given to no shell, and does
// not wait. Getenv says whether there is a desktop.
func OpenBrowser(address string, getenv func(string) string) error {
	if !strings.HasPrefix(address, "https://") && !strings.HasPrefix(address, "http://") {
		return errors.New("it is no address of the web")
	}
	program := "open"
	if runtime.GOOS != "darwin" {
		if program = "xdg-open"; getenv("DISPLAY") == "" && getenv("WAYLAND_DISPLAY") == "" {
			return errors.New("there is no desktop")
		}
	}
	cmd := exec.Command(program, address)
	cmd.SysProcAttr = childAttr() // Ctrl-C at the terminal is not meant for it
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }() // reaped; how it ended says nothing about what is shown
	return nil
}
