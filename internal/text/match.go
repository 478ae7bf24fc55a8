package text

import (
	"bytes"
	"strings"
)

// maxLines is how many lines a Problem names.
const maxLines = 20

// occurrences is where old begins in text and how often it does, places that overlap counted too. With count 0 the places
// are all that do not overlap, from the left; else the first count of them, or enough of them to name.
func occurrences(text []byte, old string, count int) (at []int32, found int) {
	keep := max(count, maxLines)
	for m := newMatcher(text, old); ; {
		i := m.next()
		if i < 0 {
			break
		}
		found++
		free := len(at) == 0 || int(at[len(at)-1])+len(old) <= i
		if count == 0 && free || count > 0 && len(at) < keep {
			at = append(at, int32(i))
		}
	}
	return at, found
}

// matcher finds every place of a text in another, in one pass whatever they are.
type matcher struct {
	text []byte
	old  []byte
	// border holds for each beginning of old how long an end of it is that is a beginning, too: where the next
	// occurrence may overlap.
	border  []int32
	at      int // what is looked at next
	matched int // how much of old ends there
}

func newMatcher(text []byte, old string) *matcher {
	m := &matcher{text: text, old: []byte(old), border: make([]int32, len(old)+1)}
	if len(old) > len(text) {
		m.at = len(text)
		return m
	}
	for i, k := 1, 0; i < len(old); i++ {
		for k > 0 && old[i] != old[k] {
			k = int(m.border[k])
		}
		if old[i] == old[k] {
			k++
		}
		m.border[i+1] = int32(k)
	}
	return m
}

// next is the start of the next occurrence, or -1.
func (m *matcher) next() int {
	for m.at < len(m.text) {
		if m.matched == 0 {
			i := bytes.Index(m.text[m.at:], m.old)
			if i < 0 {
				m.at = len(m.text)
				return -1
			}
			return m.hit(m.at + i + len(m.old))
		}
		for c := m.text[m.at]; ; m.matched = int(m.border[m.matched]) {
			if c == m.old[m.matched] {
				m.matched, m.at = m.matched+1, m.at+1
				break
			}
			if m.matched == 0 {
				break
			}
		}
		if m.matched == len(m.old) {
			return m.hit(m.at)
		}
	}
	return -1
}

// hit goes on behind an occurrence that ends at end.
func (m *matcher) hit(end int) int {
	m.at, m.matched = end, int(m.border[len(m.old)])
	return end - len(m.old)
}

// closestLine is the line of text where old most likely was meant to begin, or 0. First by the most lines that are equal
// but for the space around them, then by the line most like the first one of old.
func closestLine(text []byte, old string) int {
	lines := strings.Split(old, "\n")
	at := map[string]int{} // each line of old that says something, and where it is first
	begin := -1
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
		if _, seen := at[lines[i]]; seen || lines[i] == "" {
			continue
		}
		at[lines[i]] = i
		if begin < 0 {
			begin = i
		}
	}
	if begin < 0 {
		return 0
	}
	if line := closestBlock(text, at, len(lines)); line > 0 {
		return line
	}
	if line := mostAlike(text, lines[begin]); line > 0 {
		return max(line-begin, 1)
	}
	return 0
}

// closestBlock is the line at which the most of so many lines are where at has them, or 0 when none is.
func closestBlock(text []byte, at map[string]int, lines int) int {
	votes := make([]int, lines) // for the last lines that were looked at, in turn
	best, most := 0, 0
	for number, line := lines, []byte(nil); len(text) > 0; number++ {
		votes[number%lines] = 0
		line, text, _ = bytes.Cut(text, []byte{'\n'})
		i, ok := at[string(bytes.TrimSpace(line))]
		if !ok {
			continue
		}
		start := number - i
		if votes[start%lines]++; votes[start%lines] > most {
			best, most = max(start-lines+1, 1), votes[start%lines]
		}
	}
	return best
}

// mostAlike is the line that has the most groups of three bytes of sample, measured by its length; 0 when none has a third of them.
func mostAlike(text []byte, sample string) int {
	const (
		sampleBytes = 256 // more of a line says no more
		lineBytes   = 4 << 10
	)
	groups := map[[3]byte]int{} // a number for each, so that one counts once for each line
	for i := 0; i+3 <= min(len(sample), sampleBytes); i++ {
		g := [3]byte([]byte(sample[i : i+3]))
		if _, seen := groups[g]; !seen {
			groups[g] = len(groups)
		}
	}
	seenIn := make([]int, len(groups))
	best, bestScore := 0, 1.0/3
	for number, line := 1, []byte(nil); len(text) > 0; number++ {
		line, text, _ = bytes.Cut(text, []byte{'\n'})
		line = bytes.TrimSpace(line)
		line = line[:min(len(line), lineBytes)]
		common := 0
		for i := 0; i+3 <= len(line); i++ {
			if g, ok := groups[[3]byte(line[i:i+3])]; ok && seenIn[g] != number {
				seenIn[g], common = number, common+1
			}
		}
		// The share of what both have in what either has.
		either := len(groups) + max(len(line)-2, 0) - common
		if score := float64(common) / float64(max(either, 1)); score > bestScore {
			best, bestScore = number, score
		}
	}
	return best
}
