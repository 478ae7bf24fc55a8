// Package page reads lists that stores hand out in pages. It refuses to know what a row is, and where its list goes on.
//
// Invariant: every row comes once, in the order of the pages, and no page is read that nobody asks for.
package page

import "iter"

// Each reads page after page for as long as the caller goes on. read is given the last row of the page before, nil at
// first; limit is how many rows a page has that is not the last one.
func Each[T any](limit int, read func(last *T) ([]T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var last *T
		for {
			page, err := read(last)
			if err != nil {
				yield(*new(T), err)
				return
			}
			for _, row := range page {
				if !yield(row, nil) {
					return
				}
			}
			if len(page) < limit {
				return
			}
			last = &page[len(page)-1]
		}
	}
}

// Gather is all rows.
func Gather[T any](rows iter.Seq2[T, error]) ([]T, error) {
	var all []T
	for row, err := range rows {
		if err != nil {
			return nil, err
		}
		all = append(all, row)
	}
	return all, nil
}

// All reads every page.
func All[T any](limit int, read func(last *T) ([]T, error)) ([]T, error) {
	return Gather(Each(limit, read))
}
