package api

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"mcpx/internal/auth"
	"mcpx/internal/fault"
)

// AgentToken is the file that holds the value of an agent's token. Programs that an agent runs read it themselves: the
// value is part of no answer of the daemon.
func (p Paths) AgentToken(agent string) string {
	return filepath.Join(p.State, "secrets", "agents", agent+".token")
}

// maxTokenFile bounds what is read of a file that should hold one token.
const maxTokenFile = 4 << 10

// ReadToken reads the value of a token from its file. A file that others can read, that is not ours, or that is a link is
// refused: whoever wrote it decides who we are.
func ReadToken(path string) (auth.Value, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		agent := strings.TrimSuffix(filepath.Base(path), ".token")
		return auth.Value{}, fault.New(fault.NotFound, "token-file-missing").Saying("%s has no token here", agent).
			Hinting("`mcpx token issue --agent %s` makes one", agent)
	}
	unusable := func(why string, err error) (auth.Value, error) {
		return auth.Value{}, fault.New(fault.Denied, "token-file-unsafe").Saying("%s is not used: %s", path, why).
			Hinting("`mcpx token rotate` writes it anew").Because(err)
	}
	switch {
	case err != nil:
		return unusable("it cannot be looked at", err)
	case !info.Mode().IsRegular():
		return unusable("it is no plain file", nil)
	case !ownedByUs(info):
		return unusable("it belongs to another user", nil)
	case info.Mode().Perm()&0o077 != 0:
		return unusable("others can open it", nil)
	}
	f, err := os.Open(path)
	if err != nil {
		return unusable("it cannot be opened", err)
	}
	defer f.Close()
	now, err := f.Stat()
	if err != nil || !os.SameFile(info, now) {
		return unusable("it was exchanged meanwhile", err)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxTokenFile))
	if err != nil {
		return unusable("it cannot be read", err)
	}
	v, err := auth.Parse(auth.OfAgent, strings.TrimSuffix(string(text), "\n"))
	if err != nil {
		return unusable("it holds no token", nil)
	}
	return v, nil
}
