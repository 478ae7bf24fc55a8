package main

import (
	"cmp"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the third column of docs/proof.md anew")

// proofDocument maps numbered behaviours to tests. The first two columns of its tables are written by hand.
const proofDocument = "docs/proof.md"

// unbuilt begins the third column of a number whose subject is not there yet.
const unbuilt = "not built: "

var (
	proofRow   = regexp.MustCompile(`^\| ((?:RT|DW)-C?\d+) \| (.*) \| (.*?) ?\|$`)
	numberText = regexp.MustCompile(`\b(RT|DW)-(C?\d+)\b`)
	// numberName is a number in the name of a test: TestRT12Mirror, TestRT70And71Restore, TestRT47To54Refusals.
	numberName = regexp.MustCompile(`^Test(RT|DW)(\d+)(?:(And|To)(\d+))?`)
)

// TestProof holds the table against the sources: what it names as the proof of a number is a test that says so. It prints
// the numbers that nothing proves, and those for which the sources have more than the table.
func TestProof(t *testing.T) {
	proofs := proofsOf(t)
	document, err := os.ReadFile(proofDocument)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	var open, stale []string
	lines := strings.Split(string(document), "\n")
	for i, line := range lines {
		row := proofRow.FindStringSubmatch(line)
		if row == nil {
			continue
		}
		number, behaviour, stated := row[1], row[2], row[3]
		if known[number] {
			t.Errorf("%s stands twice in %s", number, proofDocument)
		}
		known[number] = true
		found := strings.Join(proofs[number], ", ")
		switch {
		case found == "" && strings.HasPrefix(stated, unbuilt):
			continue
		case found == "":
			open = append(open, number)
		case stated != found:
			stale = append(stale, number)
		}
		for name := range strings.SplitSeq(stated, ", ") {
			if stated != "" && !strings.HasPrefix(stated, unbuilt) && !slices.Contains(proofs[number], name) && !*update {
				t.Errorf("%s: the table names %s, which is not there or does not name %s", number, name, number)
			}
		}
		lines[i] = "| " + number + " | " + behaviour + " | " + found + " |"
	}
	for _, number := range slices.SortedFunc(maps.Keys(proofs), byNumber) {
		if !known[number] {
			t.Errorf("%s has %s and no row in %s", number, strings.Join(proofs[number], ", "), proofDocument)
		}
	}
	t.Logf("%d of %d numbers have no test: %s", len(open), len(known), strings.Join(open, " "))
	if len(stale) > 0 {
		t.Logf("go test . -run TestProof -update adds tests of %s", strings.Join(stale, " "))
	}
	if *update {
		if err := os.WriteFile(proofDocument, []byte(strings.Join(lines, "\n")), 0o644); err != nil { //nolint:gosec // a document
			t.Fatal(err)
		}
	}
}

// byNumber orders RT-9 before RT-10.
func byNumber(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}

// proofsOf are the tests and scripts by the numbers that they say they are about, each as it stands in the table.
func proofsOf(t *testing.T) map[string][]string {
	t.Helper()
	proofs := map[string][]string{}
	add := func(number, where string) {
		if !slices.Contains(proofs[number], where) {
			proofs[number] = append(proofs[number], where)
		}
	}
	err := filepath.WalkDir("internal", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		switch {
		case strings.HasSuffix(file, ".txtar"):
			source, err := os.ReadFile(file)
			for _, number := range numbersIn(string(source)) {
				add(number, "`"+path.Base(file)+"`")
			}
			return err
		case strings.HasSuffix(file, "_test.go"):
			return testsIn(file, add)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return proofs
}

// testsIn finds the numbers in the tests of a file: in their names, their comments and what is between their braces.
func testsIn(file string, add func(number, where string)) error {
	source, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, source, parser.ParseComments)
	if err != nil {
		return err
	}
	for _, d := range parsed.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Test") && !strings.HasPrefix(f.Name.Name, "Fuzz") {
			continue
		}
		from := f.Pos()
		if f.Doc != nil {
			from = f.Doc.Pos()
		}
		text := string(source[set.Position(from).Offset:set.Position(f.End()).Offset])
		for _, number := range append(numbersOf(f.Name.Name), numbersIn(text)...) {
			add(number, "`"+f.Name.Name+"` in "+strings.TrimPrefix(path.Dir(filepath.ToSlash(file)), "internal/"))
		}
	}
	return nil
}

// numbersIn are the numbers that a text names.
func numbersIn(text string) (numbers []string) {
	for _, m := range numberText.FindAllStringSubmatch(text, -1) {
		numbers = append(numbers, m[1]+"-"+m[2])
	}
	return numbers
}

// numbersOf are the numbers in the name of a test.
func numbersOf(name string) (numbers []string) {
	m := numberName.FindStringSubmatch(name)
	if m == nil {
		return nil
	}
	numbers = []string{m[1] + "-" + m[2]}
	first, _ := strconv.Atoi(m[2]) // of digits
	last, _ := strconv.Atoi(m[4])
	switch m[3] {
	case "And":
		numbers = append(numbers, m[1]+"-"+m[4])
	case "To":
		for n := first + 1; n <= last; n++ {
			numbers = append(numbers, m[1]+"-"+strconv.Itoa(n))
		}
	}
	return numbers
}
