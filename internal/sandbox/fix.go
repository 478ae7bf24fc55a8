package sandbox

import (
	"errors"
	"os"
	"strings"
	"syscall"
)

var (
	errNoBwrap    = errors.New("the program bwrap is not on the PATH")
	errNoLandlock = errors.New("the kernel has no Landlock")
)

// fix says what makes a mechanism work, by what the kernel says of itself.
func fix(m Mechanism, err error) string {
	switch {
	case errors.Is(err, errNoBwrap):
		return "install the package bubblewrap: `sudo apt-get install bubblewrap` or `sudo dnf install bubblewrap`"
	case errors.Is(err, errNoLandlock) && errors.Is(err, syscall.EOPNOTSUPP):
		return "add landlock to the kernel's parameter lsm= and start the machine again"
	case errors.Is(err, errNoLandlock):
		return "use a kernel from 5.13 on with CONFIG_SECURITY_LANDLOCK"
	case m != Bubblewrap:
		return ""
	case kernelSays("/proc/sys/user/max_user_namespaces", "0"):
		return "allow user namespaces: `sudo sysctl -w user.max_user_namespaces=10000`"
	case kernelSays("/proc/sys/kernel/unprivileged_userns_clone", "0"):
		return "allow user namespaces: `sudo sysctl -w kernel.unprivileged_userns_clone=1`"
	case kernelSays("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"):
		return "AppArmor forbids user namespaces to bwrap; allow them to it alone: `printf 'abi <abi/4.0>,\\ninclude <tunables/global>\\nprofile bwrap /usr/bin/bwrap flags=(unconfined) {\\n  userns,\\n}\\n' | " +
			"sudo tee /etc/apparmor.d/bwrap && sudo systemctl reload apparmor`"
	}
	return "run `bwrap --ro-bind / / --unshare-all true` to see why; in a container, allow user namespaces or set sandbox.mechanism to landlock"
}

func kernelSays(file, value string) bool {
	data, err := os.ReadFile(file)
	return err == nil && strings.TrimSpace(string(data)) == value
}
