// Package gitmerge asks git for the merge of three texts: the oracle of what mcpx merges itself.
package gitmerge

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
)

// File is what `git merge-file` makes of three texts, in a directory for them; false: a conflict.
func File(t interface{ Fatal(args ...any) }, git, dir, base, current, proposed string) (string, bool) {
	for name, text := range map[string]string{"base": base, "current": current, "proposed": proposed} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(git, "merge-file", "-p", "current", "base", "proposed")
	cmd.Dir = dir
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out), err == nil
}
