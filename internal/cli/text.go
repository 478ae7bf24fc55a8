package cli

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// line prints one line of the answer. A write that fails means that nobody reads: the command ends anyway.
func line(w io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintf(w, format+"\n", args...)
}

// cell is one field of a table: its text, and how it looks on a terminal.
type cell struct {
	text  string
	color string // "" is plain
}

// table prints rows under a header, columns aligned. Widths count what is seen, not the colour codes.
func (e *Env) table(w io.Writer, header []string, rows [][]cell) {
	widths := make([]int, len(header))
	all := make([][]cell, 0, len(rows)+1)
	head := make([]cell, len(header))
	for i, h := range header {
		head[i] = cell{h, dim}
	}
	all = append(append(all, head), rows...)
	for _, row := range all {
		for i, c := range row {
			widths[i] = max(widths[i], width(c.text))
		}
	}
	for _, row := range all {
		var b strings.Builder
		for i, c := range row {
			text := c.text
			if c.color != "" {
				text = e.paint(c.color, text)
			}
			b.WriteString(text)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-width(c.text)+2))
			}
		}
		line(w, "%s", strings.TrimRight(b.String(), " "))
	}
}

// pairs prints names and values in two columns.
func pairs(w io.Writer, rows [][2]string) {
	width := 0
	for _, r := range rows {
		width = max(width, len(r[0]))
	}
	for _, r := range rows {
		line(w, "%-*s  %s", width, r[0], below(r[1], width+2))
	}
}

// age is a duration as people read it: the two largest units.
func age(d time.Duration) string {
	switch {
	case d < time.Second:
		return "0s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
}

// size is a number of bytes as people read it.
func size(n int64) string {
	switch {
	case n <= 0:
		return "-"
	case n < 1<<20:
		return fmt.Sprintf("%dK", n>>10)
	case n < 10<<20:
		return fmt.Sprintf("%.1fM", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%dM", n>>20)
}

// plain makes a text of a server safe for a terminal: control characters other than line feed and tab, and characters
// that are not seen or turn the direction of what is, are shown, not carried out.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || !unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

// short is a text on one line, cut to n runes.
func short(text string, n int) string {
	text = strings.Join(strings.Fields(plain(text)), " ")
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	runes := []rune(text)
	return string(runes[:n-1]) + "…"
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func number(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}
