package event

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestEveryKindIsTold reads the source: a kind of governance that nobody tells of is a promise in docs/events.md that is not
// kept.
func TestEveryKindIsTold(t *testing.T) {
	used := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && (d.Name() == "event" || d.Name() == "test") {
			return cmpSkip(err)
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "event" {
					used[s.Sel.Name] = true
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), "kinds.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			if typ, ok := spec.Type.(*ast.Ident); ok && typ.Name == "Kind" && governs(spec.Names[0].Name) {
				kinds[spec.Names[0].Name] = true
			}
		}
		return true
	})
	if len(kinds) < 40 {
		t.Errorf("only %d kinds were found: does the collector still understand the source?", len(kinds))
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		if !used[kind] {
			t.Errorf("nobody tells of %s", kind)
		}
	}
}

// governs says whether a kind, by the name of its constant, is of what governs the configuration of agents.
func governs(name string) bool {
	return slices.ContainsFunc(strings.Fields("Agent Apply Approval Auth Candidate Catalog Config Credential Cutover Retention Rollback Service"), func(area string) bool {
		return strings.HasPrefix(name, area)
	})
}

// cmpSkip leaves a directory out, unless it could not be read.
func cmpSkip(err error) error {
	if err != nil {
		return err
	}
	return fs.SkipDir
}
