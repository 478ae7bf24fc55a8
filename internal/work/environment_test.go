package work

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mcpx/internal/catalog"
	"mcpx/internal/fault"
	"mcpx/internal/operation"
)

type shownEnvironment struct {
	Snapshot string `json:"snapshot_id"`
	Facts    map[string]map[string]any
	Why      map[string]string
	Changes  []environmentChange
}

// TestRT143EnvironmentInfo: RT-143; the read-only mount is TestWritable in tree, the figure of the system TestHost in
// process.
func TestRT143EnvironmentInfo(t *testing.T) {
	s := newShop(t)
	bin := t.TempDir()
	inside := filepath.Join(s.root, "bin")
	for _, path := range []string{filepath.Join(bin, "node"), filepath.Join(bin, "ruby"), filepath.Join(inside, "deno")} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	version := "v24.1.0"
	secrets := &purse{values: map[string]string{"registry": "canary-registry", "deploy": "canary-deploy"}}
	s.grant(t, catalog.Credential{Name: "registry", Commands: catalog.Grant{Projects: []string{"proj_shop"}, Variable: "REGISTRY"}})
	s.with = func(c *Config) {
		c.Environ = []string{"PATH=" + bin + ":" + inside, "TOKEN=canary-5512"}
		c.Redact = func(text string) string { return strings.ReplaceAll(text, "canary-5512", "[redacted]") }
		c.Try = func(_ context.Context, argv []string) ([]byte, error) {
			switch filepath.Base(argv[0]) {
			case "node":
				return []byte("\n" + version + " canary-5512\nmore\n"), nil
			case "ruby":
				return nil, errors.New("it ended with 1")
			}
			t.Errorf("%v was run", argv)
			return nil, nil
		}
		c.Secrets = secrets
	}
	s.start(t, s.db)
	a := s.do(t, "environment_info", `"activity":{}`)
	got := read[shownEnvironment](t, a)
	if strings.Contains(string(a.Data), "canary") {
		t.Errorf("it tells the value of a variable: %s", a.Data)
	}
	tools := got.Facts["toolchains"]
	node, _ := tools["node"].(map[string]any)
	if node["version"] != "v24.1.0 [redacted]" || node["path"] != filepath.Join(bin, "node") {
		t.Errorf("node: %v", node)
	}
	for name, why := range map[string]string{"ruby": "it ended with 1", "deno": "it lies in a project, so it is not run"} {
		one, _ := tools[name].(map[string]any)
		if v, there := one["version"]; !there || v != nil || got.Why["toolchains."+name+".version"] != why {
			t.Errorf("%s: %v, because %q", name, one, got.Why["toolchains."+name+".version"])
		}
	}
	if tools["go"] != nil || got.Facts["secrets"]["registry"] == nil || got.Facts["git"]["repository"] == nil {
		t.Errorf("%v", got.Facts)
	}
	if got.Facts["sandbox"]["usual"] != nil || got.Why["sandbox.usual"] == "" {
		t.Errorf("a daemon without a sandbox: %v, %v", got.Facts["sandbox"], got.Why)
	}
	dirs, _ := got.Facts["os"]["directories"].(map[string]any)
	if project, _ := dirs["project"].(map[string]any); project["writable"] != true || project["path"] != s.root {
		t.Errorf("directories: %v", dirs)
	}
	if home, _ := dirs["home"].(map[string]any); home["writable"] != false || got.Why["os.directories.home"] == "" {
		t.Errorf("a home that is not there: %v, %v", home, got.Why)
	}

	same := read[shownEnvironment](t, s.do(t, "environment_info", `"compare_to":%q`, got.Snapshot))
	if same.Snapshot != got.Snapshot || len(same.Changes) != 0 {
		t.Errorf("nothing has changed: %+v", same.Changes)
	}
	version = "v25.0.0"
	delete(secrets.values, "registry")
	s.grant(t, catalog.Credential{Name: "deploy", Commands: catalog.Grant{Projects: []string{"proj_shop"}, Variable: "DEPLOY"}})
	if err := os.Remove(filepath.Join(bin, "ruby")); err != nil {
		t.Fatal(err)
	}
	now := read[shownEnvironment](t, s.do(t, "environment_info", `"compare_to":%q,"sections":["toolchains","secrets"]`, got.Snapshot))
	severities := map[string]string{}
	for _, c := range now.Changes {
		severities[c.Path] = c.Severity
	}
	want := map[string]string{
		"toolchains.node.version": "warning", "toolchains.ruby.path": "blocker", "secrets.registry.ready": "blocker", "secrets.deploy.ready": "notice", "secrets.deploy.variable": "notice",
	}
	for path, severity := range want {
		if severities[path] != severity {
			t.Errorf("%s is a %q, want %q", path, severities[path], severity)
		}
	}
	if len(severities) != len(want) || now.Snapshot == got.Snapshot || len(now.Facts) != 2 {
		t.Errorf("changes: %v", now.Changes)
	}

	refused(t, s.do(t, "environment_info", `"sections":["weather"]`), operation.ArgumentInvalid, fault.AfterFix)
	refused(t, s.do(t, "environment_info", `"compare_to":"r_000000000000000000000000"`), operation.NotFound, fault.AfterFix)
	refused(t, s.as(t, "eve", "environment_info", `{}`), operation.ProjectRequired, fault.AfterFix)
	if a := s.call(t, "environment_info", `{"sections":["hardware"]}`); !a.OK {
		t.Errorf("without a session: %+v", a)
	}
}
