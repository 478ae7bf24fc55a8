package daemon

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"mcpx/internal/api"
	"mcpx/internal/atomicfile"
	"mcpx/internal/auth"
	"mcpx/internal/control"
	"mcpx/internal/converge"
	"mcpx/internal/fault"
	"mcpx/internal/tools"
)

// tokenFiles keeps the values of the agents' tokens, one file for each agent in a directory that is ours alone.
type tokenFiles struct{ paths api.Paths }

var _ control.TokenFiles = tokenFiles{}

// stagedEnd ends the name of a value whose record is not yet committed.
const stagedEnd = ".staged"

// Path is the file of an agent.
func (f tokenFiles) Path(agent string) string { return f.paths.AgentToken(agent) }

// Stage writes a value beside the one that counts.
func (f tokenFiles) Stage(agent string, v auth.Value) error {
	path := f.Path(agent)
	for _, dir := range []string{filepath.Dir(filepath.Dir(path)), filepath.Dir(path)} {
		if err := api.MakePrivate(dir); err != nil {
			return err
		}
	}
	if err := atomicfile.Write(path+stagedEnd, []byte(v.Reveal()+"\n"), 0o600); err != nil {
		return unwritten(path, err)
	}
	return nil
}

// Settle lets the staged value count.
func (f tokenFiles) Settle(agent string) error {
	path := f.Path(agent)
	if err := os.Rename(path+stagedEnd, path); err != nil {
		return unwritten(path, err)
	}
	if err := atomicfile.SyncDir(filepath.Dir(path)); err != nil {
		return unwritten(path, err)
	}
	return nil
}

// Unstage removes a value that never counted.
func (f tokenFiles) Unstage(agent string) error { return removed(f.Path(agent) + stagedEnd) }

// Drop removes everything of an agent.
func (f tokenFiles) Drop(agent string) error {
	return errors.Join(removed(f.Path(agent)+stagedEnd), removed(f.Path(agent)))
}

func removed(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return unwritten(path, err)
	}
	return nil
}

// Value reads the value of an agent.
func (f tokenFiles) Value(agent string) (auth.Value, error) { return api.ReadToken(f.Path(agent)) }

// Staged are the values that were staged and not settled.
func (f tokenFiles) Staged() (map[string]auth.Value, error) {
	dir := filepath.Dir(f.Path("any"))
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.New(fault.Unavailable, "token-file-unreadable").Saying("cannot look into %s", dir).Because(err)
	}
	staged := map[string]auth.Value{}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".token"+stagedEnd)
		if !ok {
			continue
		}
		v, err := api.ReadToken(filepath.Join(dir, e.Name()))
		if err != nil {
			v = auth.Value{} // half of one: it is nobody's
		}
		staged[name] = v
	}
	return staged, nil
}

func unwritten(path string, err error) error {
	return fault.New(fault.Unavailable, "token-file-unwritable").Saying("%s cannot be written", path).Because(err).
		Hinting("check owner, mode and free space of the state directory").Retrying(fault.AfterFix)
}

// probeHub asks mcp_hub on the loopback listener, as an agent does.
func (d *Daemon) probeHub(ctx context.Context, token string) (bool, error) {
	return tools.Probe(ctx, d.about.Base+"/servers/"+converge.HubName+"/mcp", token)
}
