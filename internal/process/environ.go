package process

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// allowed are the variables that a child gets from our own environment. Everything else stays behind, because daemons
// are started from shells whose environment holds tokens that are no business of a server.
var allowed = map[string]bool{
	"PATH": true, "HOME": true, "LANG": true, "LANGUAGE": true, "TZ": true, "TERM": true,
	"TMPDIR": true, "USER": true, "LOGNAME": true, "SHELL": true,
	"HTTP_PROXY": true, "HTTPS_PROXY": true, "NO_PROXY": true, "ALL_PROXY": true,
	"http_proxy": true, "https_proxy": true, "no_proxy": true, "all_proxy": true,
	"SSL_CERT_FILE": true, "SSL_CERT_DIR": true, "NODE_EXTRA_CA_CERTS": true,
	"XDG_CONFIG_HOME": true, "XDG_DATA_HOME": true, "XDG_STATE_HOME": true, "XDG_CACHE_HOME": true,
	"XDG_RUNTIME_DIR": true, "XDG_CONFIG_DIRS": true, "XDG_DATA_DIRS": true,
}

// Environ is the environment of a child: the allowed variables of parent, then those of entry, which win. Both are
// lists of NAME=value; the result is sorted by name and has each name once.
func Environ(parent, entry []string) []string {
	vars := map[string]string{}
	for _, kv := range parent {
		if name, value, ok := strings.Cut(kv, "="); ok && (allowed[name] || strings.HasPrefix(name, "LC_")) {
			vars[name] = value
		}
	}
	for _, kv := range entry {
		if name, value, ok := strings.Cut(kv, "="); ok && name != "" {
			vars[name] = value
		}
	}
	env := make([]string, 0, len(vars))
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		env = append(env, name+"="+vars[name])
	}
	return env
}

// lookupEnv is the value of name in a list of NAME=value; the last one counts, as for exec.
func lookupEnv(env []string, name string) (string, bool) {
	for _, kv := range slices.Backward(env) {
		if n, value, ok := strings.Cut(kv, "="); ok && n == name {
			return value, true
		}
	}
	return "", false
}

// JobTemps is the name of the directory that holds the temporary directories of our commands.
func JobTemps() string { return "mcpx-jobs-" + strconv.Itoa(os.Geteuid()) }

// DaemonEnviron is what a daemon gets of environ: all but a TMPDIR of one of our commands that the daemon happens to be started in.
// It would pass it to all that it starts, which would then be taken for remains of that command.
func DaemonEnviron(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(kv string) bool {
		dir, ok := strings.CutPrefix(kv, "TMPDIR=")
		return ok && slices.Contains(strings.Split(filepath.ToSlash(dir), "/"), JobTemps())
	})
}
