package control

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpx/internal/api"
	"mcpx/internal/catalog"
	"mcpx/internal/converge"
)

func TestInspectConfig(t *testing.T) {
	offered := stdio("offered", "npx", "offered")
	offered.ID = "srv_offered"
	b, ctx := newBench(t, offered)
	entry := stdio("files", "npx", "files")
	entry.Aliases = []string{"fs"}
	b.add(ctx, t, entry)
	p, _ := catalog.IdentifyCommand("npx", []string{"files"})
	o, _ := catalog.IdentifyCommand("npx", []string{"offered"})
	b.observed = converge.Observation{
		Files: []converge.File{{Path: "/a", State: converge.FileReadable}, {Path: "/b", State: converge.FileAbsent}},
		Entries: []converge.Entry{
			{Name: "files", Enabled: true, Transport: "stdio", Command: "npx", Args: []string{"files"}, Package: &p, Parse: "complete"},
			{Name: "offered", Enabled: true, Transport: "stdio", Command: "npx", Args: []string{"offered"}, Package: &o, Parse: "complete"},
		},
	}
	query := api.ConfigQuery{Agent: "codex", Home: "/h", Project: "/p", Moved: []string{"CODEX_HOME=/c"}}
	report, err := b.InspectConfig(ctx, query)
	if err != nil {
		t.Fatal(err)
	}
	want := converge.Look{Agent: "codex", Home: "/h", Project: "/p", Moved: query.Moved, Names: map[string]bool{"files": false, "fs": true}}
	if d := cmp.Diff(want, b.looked); d != "" {
		t.Errorf("what was looked for: -want +got:\n%s", d)
	}
	if d := cmp.Diff(map[converge.Class]int{converge.Bypass: 1, converge.Unknown: 1}, report.Counts); d != "" {
		t.Errorf("what mcpx up offers must not count as the catalog: -want +got:\n%s", d)
	}
	if len(report.Files) != 1 || report.Files[0].Path != "/a" || report.Revision == "" {
		t.Errorf("files %+v, revision %q; want the file that exists, and a revision", report.Files, report.Revision)
	}
	files, err := b.ConfigFiles(ctx, query)
	if err != nil || len(files.Files) != 2 {
		t.Errorf("%+v, %v; want both places", files, err)
	}
}
