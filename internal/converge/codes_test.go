package converge

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var codeForm = regexp.MustCompile(`^[a-z]+(-[a-z0-9]+)*$`)

func TestCodesAreUnique(t *testing.T) {
	seen := map[Code]bool{}
	for _, c := range Codes {
		if key := (Code{Code: c.Code, Kind: c.Kind}); seen[key] {
			t.Errorf("%s is there twice", c.Code)
		} else {
			seen[key] = true
		}
		if !codeForm.MatchString(c.Code) || !strings.HasSuffix(c.Means, ".") || strings.HasSuffix(c.Next, ".") {
			t.Errorf("%+v: want a code, a sentence, and a next step without a period", c)
		}
	}
	if _, ok := Explain("no-such-code"); ok {
		t.Error("an unknown code is explained")
	}
}

// TestHealthIsExplained: the codes of health are literals where they are told.
func TestHealthIsExplained(t *testing.T) {
	parsed, err := parser.ParseFile(token.NewFileSet(), "health.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	ast.Inspect(parsed, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		f, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || f.Sel.Name != "tell" {
			return true
		}
		literal, ok := call.Args[0].(*ast.BasicLit)
		if !ok {
			return true // a constant of another file
		}
		code, err := strconv.Unquote(literal.Value)
		if err != nil {
			t.Fatal(err)
		}
		found++
		if _, ok := Explain(code); !ok {
			t.Errorf("%s is not in Codes", code)
		}
		return true
	})
	if found < 18 {
		t.Errorf("only %d codes were found: does the collector still understand the source?", found)
	}
}

// TestConstantsAreExplained reads the source: a new class, reason or state must be in the registry.
func TestConstantsAreExplained(t *testing.T) {
	found := 0
	for file, names := range map[string]*regexp.Regexp{
		"classify.go":         regexp.MustCompile(`^(Compliant|Dormant|Bypass|Unknown|Ambiguous|NameConflict|Broken|Unsupported|Unsafe|Ineffective|reason[A-Z]\w+)$`),
		"observation.go":      regexp.MustCompile(`^Routed[A-Z]`),
		"reasons.go":          regexp.MustCompile(`.`),
		"auto.go":             regexp.MustCompile(`^auto[A-Z]`),
		"seal.go":             regexp.MustCompile(`^stale[A-Z]`),
		"certificate.go":      regexp.MustCompile(`^Void[A-Z]`),
		"drift.go":            regexp.MustCompile(`^drift[A-Z]`),
		"../catalog/match.go": regexp.MustCompile(`^Reason[A-Z]`),
	} {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 || !names.MatchString(spec.Names[0].Name) {
				return true
			}
			literal, ok := spec.Values[0].(*ast.BasicLit)
			if !ok {
				return true
			}
			code, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			found++
			if _, ok := Explain(code); !ok {
				t.Errorf("%s: %s (%s) is not in Codes", file, spec.Names[0].Name, code)
			}
			return true
		})
	}
	if found < 110 {
		t.Errorf("only %d constants were found: does the collector still understand the source?", found)
	}
}
