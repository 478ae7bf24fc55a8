package clientfile

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"mcpx/internal/converge"
)

// TestCodesAreExplained reads the source of this package: every code of a problem is in converge.Codes, from which the
// documentation is made.
func TestCodesAreExplained(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var codes []string
	note := func(x ast.Expr) {
		if literal, ok := x.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			if code, err := strconv.Unquote(literal.Value); err == nil && code != "" {
				codes = append(codes, code)
			}
		}
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.KeyValueExpr: // Problem{Code: "..."}
				if k, ok := x.Key.(*ast.Ident); ok && k.Name == "Code" {
					note(x.Value)
				}
			case *ast.CallExpr: // r.fault("...", field)
				name := ""
				switch f := x.Fun.(type) {
				case *ast.SelectorExpr:
					name = f.Sel.Name
				case *ast.Ident:
					name = f.Name
				}
				if slices.Contains([]string{"fault", "breaks", "extra"}, name) && len(x.Args) > 0 {
					note(x.Args[0])
				}
			case *ast.FuncDecl: // a gate is a code
				if x.Name.Name != "gate" {
					return true
				}
				ast.Inspect(x, func(n ast.Node) bool {
					if r, ok := n.(*ast.ReturnStmt); ok {
						note(r.Results[0])
					}
					return true
				})
			}
			return true
		})
	}
	if len(codes) < 20 {
		t.Errorf("only %d codes were found: does the collector still understand the source?", len(codes))
	}
	for _, code := range codes {
		if _, ok := converge.Explain(code); !ok {
			t.Errorf("%q is not explained in converge.Codes", code)
		}
	}
}
