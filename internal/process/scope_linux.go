package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// systemManager is the private socket of the systemd of the machine, which serves root only.
const systemManager = "/run/systemd/private"

// ScopeCommand is what a process of a systemd unit puts before a command that must outlive the unit: systemd-run makes a
// scope for it and then becomes the command, in the same process. Stopping a unit ends every process of its cgroup,
// whatever its session or parent is (systemd.kill(5)), so a new session alone does not get away. environ is our own
// environment, and the command must get its XDG_RUNTIME_DIR.
//
// The result is nil without an error where no unit is involved. The error says why there can be no scope although there
// is a unit: children live on then only when its KillMode is process.
func ScopeCommand(environ []string) ([]string, error) {
	if unit, _ := lookupEnv(environ, "INVOCATION_ID"); unit == "" {
		return nil, nil
	}
	runtime, _ := lookupEnv(environ, "XDG_RUNTIME_DIR")
	instance, err := instanceOf(runtime, os.Geteuid(), systemManager)
	if err != nil {
		return nil, err
	}
	run, err := exec.LookPath("systemd-run")
	if err != nil {
		return nil, err
	}
	return append(append([]string{run}, instance...), "--scope", "--collect", "--quiet", "--"), nil
}

// instanceOf chooses the systemd that can be asked: the one of the user, or, for root, the one with the socket system.
func instanceOf(runtime string, uid int, system string) ([]string, error) {
	err := errors.New("XDG_RUNTIME_DIR is not set, so the systemd of the user cannot be found")
	if runtime != "" {
		if err = isSocket(filepath.Join(runtime, "systemd", "private")); err == nil {
			return []string{"--user"}, nil
		}
	}
	if uid == 0 && isSocket(system) == nil {
		return nil, nil
	}
	return nil, err
}

func isSocket(path string) error {
	info, err := os.Stat(path)
	if err == nil && info.Mode().Type() != fs.ModeSocket {
		err = fmt.Errorf("%s is no socket", path)
	}
	return err
}
