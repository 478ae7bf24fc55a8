package main

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// layers is the table of docs: a package imports only packages with a smaller number. Packages appear in the tree as
// they get content; one that is not listed here fails TestArchitecture, so that its place is decided, not found.
var layers = map[string]int{
	"internal/fault": 0, "internal/id": 0, "internal/key": 0, "internal/crash": 0, "internal/lazyregexp": 0, "internal/page": 0, // docs/decisions/0036
	"internal/rpc": 1, "internal/auth": 1, "internal/event": 1, "internal/text": 1, "internal/ignore": 1,
	"internal/catalog": 2, "internal/operation": 2, "internal/policy": 2, "internal/approval": 2,
	"internal/retention": 2, // docs/decisions/0039
	"internal/era":       3, "internal/supervise": 3, "internal/converge": 3, "internal/workspace": 3,
	"internal/session": 3, "internal/gate": 3,
	"internal/store": 4, "internal/atomicfile": 4, "internal/process": 4, "internal/sandbox": 4, "internal/watch": 4,
	"internal/secret": 4, "internal/telemetry": 4, "internal/world": 4, // docs/decisions/0029
	"internal/gateway":  5,
	"internal/httpedge": 6, "internal/shim": 6, "internal/clientfile": 6, "internal/tree": 6, "internal/sqlite": 6,
	"internal/api":     7,
	"internal/control": 8, "internal/work": 8,
	"internal/localapi": 9, "internal/tools": 9, "internal/web": 9, "internal/tui": 9, "internal/bridge": 9,
	"internal/demo":   9,                          // docs/decisions/0003
	"internal/daemon": 10, "internal/certify": 10, // docs/decisions/0017
	"internal/cli": 11,
	".":            12,
}

// Test packages may import anything and are imported by no product package.
const testTree = "internal/test"

var testPackages = map[string]bool{
	"storetest": true, "crashtest": true, "fakemcp": true, "story": true, "sim": true, "peers": true,
	"bench": true, "rig": true, "wire": true, "faultdisk": true, "gitmerge": true,
}

// adapters are the packages of layer 6. They are wired together by daemon and imported by nobody else, apart from the
// pairs of adapterPairs.
var (
	adapters     = map[string]bool{"internal/httpedge": true, "internal/shim": true, "internal/clientfile": true, "internal/tree": true, "internal/sqlite": true}
	adapterPairs = map[[2]string]bool{
		{"internal/bridge", "internal/httpedge"}: true, {".", "internal/shim"}: true,
		{"internal/work", "internal/tree"}: true, // docs/decisions/0023
	}
)

// TestArchitecture parses every file of the module. It does not ask `go list`: files that a child process reads are
// no inputs of Go's test cache, so a broken layer would pass from the cache.
func TestArchitecture(t *testing.T) {
	for dir, pkg := range parseTree(t) {
		layer, listed := layers[dir]
		rest, isTest := strings.CutPrefix(dir, testTree+"/")
		if isTest {
			name, _, _ := strings.Cut(rest, "/")
			listed = testPackages[name]
		}
		if !listed {
			t.Errorf("%s: a directory with Go files that has no layer: add it to the table in arch_test.go and say why in docs/decisions", dir)
			continue
		}
		pkg.checkComment(t, dir)
		pkg.checkNoInit(t)
		if isTest {
			continue
		}
		pkg.checkPatterns(t)
		for imported, at := range pkg.imports {
			switch to, known := layers[imported]; {
			case strings.HasPrefix(imported, testTree+"/"):
				t.Errorf("%s: imports %s: product code does not import test packages", at, imported)
			case !known:
				t.Errorf("%s: imports %s, which has no layer", at, imported)
			case to >= layer:
				t.Errorf("%s: %s (layer %d) imports %s (layer %d): only smaller numbers are allowed", at, dir, layer, imported, to)
			case adapters[imported] && dir != "internal/daemon" && !adapterPairs[[2]string{dir, imported}]:
				t.Errorf("%s: %s imports the adapter %s: adapters are wired by daemon", at, dir, imported)
			}
		}
	}
}

// goPackage is what the checks need of one directory.
type goPackage struct {
	fset     *token.FileSet
	imports  map[string]string // product code only: module directory to the position of the first import
	product  []*ast.File       // without _test.go files
	tests    []*ast.File
	position func(ast.Node) string
}

func parseTree(t *testing.T) map[string]*goPackage {
	t.Helper()
	packages := map[string]*goPackage{}
	fset := token.NewFileSet()
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := entry.Name()
		if entry.IsDir() {
			if name != "." && (strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") || base == "testdata") {
				return fs.SkipDir
			}
			if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil && name != "." {
				return fs.SkipDir // a module of its own
			}
			return nil
		}
		if !strings.HasSuffix(base, ".go") {
			return nil
		}
		file, err := parser.ParseFile(fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir := filepath.ToSlash(filepath.Dir(name))
		pkg := packages[dir]
		if pkg == nil {
			pkg = &goPackage{fset: fset, imports: map[string]string{}}
			pkg.position = func(n ast.Node) string { return fset.Position(n.Pos()).String() }
			packages[dir] = pkg
		}
		if strings.HasSuffix(base, "_test.go") {
			pkg.tests = append(pkg.tests, file)
			return nil
		}
		pkg.product = append(pkg.product, file)
		for _, spec := range file.Imports {
			imported := strings.Trim(spec.Path.Value, `"`)
			if rest, ours := strings.CutPrefix(imported, "mcpx/"); ours {
				if _, seen := pkg.imports[path.Clean(rest)]; !seen {
					pkg.imports[path.Clean(rest)] = pkg.position(spec)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(packages) < 2 {
		t.Fatalf("found %v: the test must run in the root of the module", slices.Sorted(maps.Keys(packages)))
	}
	return packages
}

// checkComment wants exactly one package comment: none hides what the package decides, two hide that they disagree.
func (p *goPackage) checkComment(t *testing.T, dir string) {
	t.Helper()
	files := p.product
	if len(files) == 0 {
		files = p.tests
	}
	var at []string
	for _, file := range files {
		if file.Doc != nil {
			at = append(at, p.position(file.Doc))
		}
	}
	// The root may consist of this file alone while main.go is being written.
	if len(at) != 1 && (dir != "." || len(p.product) > 0) {
		t.Errorf("%s: want exactly one package comment, found %d: %v", dir, len(at), at)
	}
}

// checkNoInit refuses init functions: what runs before main has no owner, no order and no error.
func (p *goPackage) checkNoInit(t *testing.T) {
	t.Helper()
	for _, file := range slices.Concat(p.product, p.tests) {
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				t.Errorf("%s: func init: construct it where it is used", p.position(f))
			}
		}
	}
}

// checkPatterns wants every pattern of a package variable to be compiled when it is first used, because every supervisor
// would pay for it, and to compile.
func (p *goPackage) checkPatterns(t *testing.T) {
	t.Helper()
	for _, file := range p.product {
		for _, decl := range file.Decls {
			vars, ok := decl.(*ast.GenDecl)
			if !ok || vars.Tok != token.VAR {
				continue
			}
			ast.Inspect(vars, func(n ast.Node) bool {
				if _, later := n.(*ast.FuncLit); later {
					return false
				}
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				switch types.ExprString(call.Fun) {
				case "regexp.MustCompile":
					t.Errorf("%s: compiled at the start of every process: lazyregexp.New", p.position(call))
				case "lazyregexp.New":
					value, err := types.Eval(p.fset, nil, token.NoPos, types.ExprString(call.Args[0]))
					if err != nil || value.Value == nil {
						t.Errorf("%s: the pattern is no constant text: %v", p.position(call), err)
						return true
					}
					if _, err := regexp.Compile(constant.StringVal(value.Value)); err != nil {
						t.Errorf("%s: %v", p.position(call), err)
					}
				}
				return true
			})
		}
	}
}

// TestMap: every package is on the map.
func TestMap(t *testing.T) {
	text, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	for dir := range layers {
		if _, err := os.Stat(dir); dir != "." && err == nil && !strings.Contains(string(text), "("+dir+")") {
			t.Errorf("ARCHITECTURE.md does not tell of %s", dir)
		}
	}
}
