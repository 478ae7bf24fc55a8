package page

import (
	"errors"
	"slices"
	"testing"
)

func TestEach(t *testing.T) {
	rows, reads := []int{1, 2, 3, 4, 5}, 0
	read := func(last *int) ([]int, error) {
		reads++
		from := 0
		if last != nil {
			from = *last
		}
		return rows[from:min(from+2, len(rows))], nil
	}
	for range 2 { // it begins anew each time
		if got, err := Gather(Each(2, read)); err != nil || !slices.Equal(got, rows) {
			t.Errorf("read %v, %v", got, err)
		}
	}
	reads = 0
	for row, err := range Each(2, read) {
		if err != nil || row == 2 {
			break
		}
	}
	if reads != 1 {
		t.Errorf("%d pages were read for what is on the first", reads)
	}
	failing := func(last *int) ([]int, error) {
		if last == nil {
			return []int{1, 2}, nil
		}
		return nil, errors.New("gone")
	}
	if _, err := Gather(Each(2, failing)); err == nil || err.Error() != "gone" {
		t.Errorf("a page that cannot be read: %v", err)
	}
}
