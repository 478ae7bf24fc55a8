package catalog

// Nearest is the word of words that is most like word, or "" when none is close enough to be a misspelling: at most a
// third of the letters differ. Of two equally close words the first wins.
func Nearest(word string, words []string) string {
	best, nearest := len(word)/3+1, ""
	for _, w := range words {
		if d := distance(word, w, best); d < best {
			best, nearest = d, w
		}
	}
	return nearest
}

// distance is the number of letters to insert, remove, replace or swap with a neighbour (optimal string alignment),
// or limit when it is not below limit.
func distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	before, prev, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(prev[j]+1, row[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, prev, row = prev, row, before
	}
	return min(prev[len(b)], limit)
}
