//go:build linux || darwin

package tree

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"mcpx/internal/test/faultdisk"
)

// TestRecoveryIsLinear: DW-75, the part about time. A batch of twice as many paths that is killed after seven tenths of its steps takes
// twice as many steps on the disk until its end, and hardly more. Progress is told 500 paths at a time, in the recovery also of
// those that were done before.
func TestRecoveryIsLinear(t *testing.T) {
	once := func(paths, kill int) (steps int, told []int) {
		m := newMemory(t)
		for _, dir := range []string{"at", "txn", "trash"} {
			m.mkdir(dir)
		}
		var rows []Change
		for i := range paths {
			c := Change{N: i, Kind: Add, Path: RawPath(fmt.Sprintf("f%d", i)), Propose: fmt.Sprintf("new %d", i)}
			if i%2 == 1 {
				c.Kind, c.Expect = Replace, fmt.Sprintf("old %d", i)
			}
			rows = append(rows, m.row(c))
		}
		if kill > 0 {
			m.killAt = []int{kill}
		}
		tell := func(s []Step) { told = append(told, len(s)) }
		e := &engine{files: m, rows: rows, tell: tell}
		o, err := Outcome{}, error(nil)
		if faultdisk.Kill(func() { o, err = e.apply(context.Background()) }) {
			m.step, told = 0, nil
			e = &engine{files: m, rows: rows, tell: tell}
			o, err = e.recover(context.Background())
		}
		if err != nil || o.State != Applied {
			t.Fatalf("%d paths: %+v, %v", paths, o, err)
		}
		m.whole(rows, o)
		return m.step, told
	}
	const paths = 600
	live, _ := once(paths, 0)
	one, told := once(paths, live*7/10)
	two, toldTwo := once(2*paths, 2*live*7/10)
	if two > 2*one+one/10 || two < 2*one-one/10 {
		t.Errorf("a recovery of %d paths takes %d steps, one of %d takes %d", paths, one, 2*paths, two)
	}
	if !slices.Equal(told, []int{500}) || !slices.Equal(toldTwo, []int{500, 500}) {
		t.Errorf("told was of %v and %v paths", told, toldTwo)
	}
}
