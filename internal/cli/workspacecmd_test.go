package cli

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"mcpx/internal/api"
	"mcpx/internal/workspace"
)

// TestConflictWords: a person is told in words why a path is in conflict, whatever the reason is.
func TestConflictWords(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../workspace/decide.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || spec.Type == nil {
			return true
		}
		if of, ok := spec.Type.(*ast.Ident); ok && of.Name == "Conflict" {
			found++
			kind := strings.Trim(spec.Values[0].(*ast.BasicLit).Value, `"`)
			if conflictWords[workspace.Conflict(kind)] == "" {
				t.Errorf("%s has no words", kind)
			}
		}
		return true
	})
	if found != len(conflictWords) {
		t.Errorf("%d kinds of conflicts, and words for %d", found, len(conflictWords))
	}
}

// TestConflictsText: of a file that was renamed a person is told where the merged text belongs; what is not listed is counted.
func TestConflictsText(t *testing.T) {
	var out bytes.Buffer
	renamed := api.WorkspaceConflict{
		WorkspacePath: api.WorkspacePath{Path: "a.go"}, Kind: workspace.ConflictRenameModify, Renamed: "b.go",
		Bundle: "/x", Sides: []workspace.Side{{Name: "MERGED"}},
	}
	twice := api.WorkspaceConflict{WorkspacePath: api.WorkspacePath{Path: "old.go"}, Kind: workspace.ConflictRenameRename, Renamed: "ours.go", Theirs: "theirs.go", Bundle: "/x"}
	(&Env{}).conflictsText(&out, []api.WorkspaceConflict{renamed, twice}, 3)
	for _, want := range []string{"Conflicts: 5 paths", conflictWords[workspace.ConflictRenameModify], "write MERGED to b.go first", "has it as ours.go, the project as theirs.go; --resolved leaves both", "and 3 more"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing:\n%s", want, out.String())
		}
	}
}
