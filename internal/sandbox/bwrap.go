package sandbox

import "mcpx/internal/policy"

// privateDirs are empty for a command: sockets of other programs lie there, and files of other users.
var privateDirs = []string{"/run", "/tmp", "/var/tmp"}

// stubInside is where the stub lies for a command in namespaces: its own directory may be hidden.
const stubInside = "/run/mcpx-stub"

// bubblewrapped is the argument list for namespaces. The first stub shields bwrap from signals that are meant for the
// command and would end it; the second one filters system calls and becomes the command.
func (s *Sandbox) bubblewrapped(r Request) ([]string, error) {
	before, err := stubArgs(s.cfg.Exe, confinement{Shield: true})
	if err != nil {
		return nil, err
	}
	after, err := stubArgs(stubInside, confinement{Sockets: socketsInet, Filter: true})
	if err != nil {
		return nil, err
	}
	// It does not hear the signal that ends other commands with their supervisor; nothing ignores this one.
	argv := append(before, s.bwrap, "--die-with-parent", "--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try", "--cap-drop", "ALL")
	if !r.Network {
		argv = append(argv, "--unshare-net")
	}
	if r.Level == policy.SandboxStrict {
		for _, dir := range systemDirs {
			argv = append(argv, "--ro-bind-try", dir, dir)
		}
	} else {
		argv = append(argv, "--ro-bind", "/", "/")
	}
	argv = append(argv, "--dev", "/dev", "--proc", "/proc")
	for _, dir := range physical(privateDirs) {
		argv = append(argv, "--tmpfs", dir)
	}
	if r.Network {
		argv = append(argv, "--ro-bind-try", "/run/systemd/resolve", "/run/systemd/resolve") // resolv.conf leads there
	}
	for _, path := range r.Hidden {
		if r.Level == policy.SandboxStrict && !readAtStrict(path) {
			continue // it is not there at all
		}
		argv = append(argv, hide(path)...)
	}
	argv = append(argv, "--ro-bind", s.cfg.Exe, stubInside)
	for _, path := range r.Readable {
		argv = append(argv, "--ro-bind", path, path)
	}
	for _, path := range r.Writable {
		argv = append(argv, "--bind", path, path)
	}
	for _, path := range r.Hidden {
		if inAny(path, r.Readable) || inAny(path, r.Writable) {
			argv = append(argv, hide(path)...) // what was just shown holds it
		}
	}
	for _, path := range r.Hidden { // last: a directory that may be changed can lie in a hidden one
		if isDir(path) && (r.Level != policy.SandboxStrict || readAtStrict(path)) {
			argv = append(argv, "--remount-ro", path)
		}
	}
	argv = append(argv, "--chdir", r.Dir, "--")
	argv = append(argv, after...)
	return append(append(argv, r.File), r.Argv[1:]...), nil
}

func readAtStrict(path string) bool { return inAny(path, systemDirs) }

func inAny(path string, dirs []string) bool {
	for _, dir := range dirs {
		if within(path, dir) {
			return true
		}
	}
	return false
}

// hide covers a path.
func hide(path string) []string {
	if isDir(path) {
		return []string{"--tmpfs", path}
	}
	return []string{"--ro-bind", "/dev/null", path}
}
