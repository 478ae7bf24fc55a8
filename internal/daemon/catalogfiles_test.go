package daemon

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"mcpx/internal/catalog"
	"mcpx/internal/clientfile"
)

// TestCatalogFiles: what others could have written is not read, and each file stands for itself.
func TestCatalogFiles(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no modes")
	}
	const good = "[servers.a]\ncommand = 'x'\n"
	one := func(t *testing.T, d *Daemon) catalog.File {
		t.Helper()
		files := d.catalogFiles()
		if len(files) != 1 {
			t.Fatalf("%d files: %+v", len(files), files)
		}
		return files[0]
	}
	for _, test := range []struct {
		name, code string
		spoil      func(dir, path string) error
	}{
		{"as it is", "", func(string, string) error { return nil }},
		{"written by all", "catalog-file-unsafe", func(_, path string) error { return os.Chmod(path, 0o646) }},
		{"written by the group", "catalog-file-unsafe", func(_, path string) error { return os.Chmod(path, 0o660) }},
		{"read by others", "", func(_, path string) error { return os.Chmod(path, 0o644) }},
		{"a link", "catalog-file-unsafe", func(dir, path string) error {
			real := filepath.Join(dir, "real")
			return errors.Join(os.Rename(path, real), os.Symlink(real, path))
		}},
		{"a directory", "catalog-file-unsafe", func(_, path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) }},
		{"the directory is written by all", "catalog-file-unsafe", func(dir, _ string) error { return os.Chmod(dir, 0o777) }},
		{"that of the settings is", "catalog-file-unsafe", func(dir, _ string) error { return os.Chmod(filepath.Dir(dir), 0o777) }},
		{"the directory is a link", "catalog-file-unsafe", func(dir, _ string) error {
			return errors.Join(os.Rename(dir, dir+"2"), os.Symlink(dir+"2", dir))
		}},
		{"no TOML", "catalog-file-broken", func(_, path string) error { return os.WriteFile(path, []byte("x = [\n"), 0o600) }},
		{"too large", "catalog-file-broken", func(_, path string) error {
			return os.WriteFile(path, []byte(strings.Repeat("#", maxCatalogFile+1)), 0o600)
		}},
		{"too many", "catalog-file-broken", func(dir, _ string) error {
			var errs []error
			for n := range maxCatalogFiles {
				errs = append(errs, os.WriteFile(filepath.Join(dir, "f"+string(rune('0'+n/64))+string(rune('0'+n%64))+".toml"), nil, 0o600))
			}
			return errors.Join(errs...)
		}},
		{"files beside it", "", func(dir, _ string) error {
			return errors.Join(os.WriteFile(filepath.Join(dir, ".a.toml"), []byte("["), 0o600), os.WriteFile(filepath.Join(dir, "b.toml~"), []byte("["), 0o600))
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := &Daemon{cfg: config(t)}
			dir := d.cfg.Paths.Catalog()
			if files := d.catalogFiles(); files != nil {
				t.Errorf("without a directory: %+v", files)
			}
			path := filepath.Join(dir, "work.toml")
			if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(path, []byte(good), 0o600), test.spoil(dir, path)); err != nil {
				t.Fatal(err)
			}
			f := one(t, d)
			switch {
			case test.code == "":
				if f.Problem != nil || len(f.Entries) != 1 {
					t.Errorf("%+v", f)
				}
			case f.Problem == nil || f.Problem.Code != test.code || f.Problem.Text == "" || f.Problem.Hint == "":
				t.Errorf("%+v, want the problem %s", f.Problem, test.code)
			}
		})
	}
}

// FuzzCatalogFile: whatever a file says, an entry that is taken is one that Validate accepts, a problem says where it is, and
// no value that looks like a secret is told.
func FuzzCatalogFile(f *testing.F) {
	for _, seed := range []string{
		"", "[servers.a]\ncommand = 'x'\nargs = ['y']\nenv.A = {ref = 'cred:a'}\n", "servers.a.url = 'https://h/mcp'", "[[servers.a]]", "a = 1",
		"[servers.\"a.b\"]\nlimits = {idle = 'never', call = '1s'}\ncommand='/x y'", "[servers.a]\nurl='https://u:p@h'\nheaders={A='Bearer ghp_abcdefghijklmnopqrstuvwxyz'}",
		"servers={a={command='x',env={T={template='{env:T}'}}}}", "\xef\xbb\xbf[servers]\r\na=1\r\n", "[servers.a]\ncommand=2000-01-01\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		doc, line, err := clientfile.ReadTOML([]byte(text))
		if err != nil {
			if _, ok := errors.AsType[*catalog.SyntaxError](err); !ok {
				t.Fatalf("%v is no syntax error", err)
			}
			return
		}
		file := catalog.ReadFile("/f.toml", doc, line)
		lines := strings.Count(text, "\n") + 1
		for _, e := range file.Entries {
			for _, p := range e.Problems {
				if p.Line < 1 || p.Line > lines || p.Text == "" || p.Path != "/f.toml" {
					t.Errorf("%+v of a text with %d lines", p, lines)
				}
			}
			if len(e.Problems) > 0 {
				continue
			}
			s := e.Server
			s.Review, s.Lifecycle = catalog.ReviewApproved, catalog.Enabled
			if err := catalog.Validate(s); err != nil || s.Name != e.Name || e.Line < 1 || e.Line > lines {
				t.Errorf("%+v: %v", e, err)
			}
			for _, all := range []any{s.Stdio, s.HTTP} {
				if raw, err := json.Marshal(all); err != nil || strings.Contains(string(raw), `"unresolved":true`) {
					t.Errorf("%s, %v", raw, err)
				}
			}
		}
	})
}
