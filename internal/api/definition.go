package api

import (
	"strings"

	"mcpx/internal/catalog"
)

// Definition is the command line or the URL of a server for people, with what looks like a secret replaced.
func (s Server) Definition() string {
	if s.HTTP != nil {
		return catalog.RedactURL(s.HTTP.URL)
	}
	if s.Stdio == nil {
		return ""
	}
	words := append([]string{s.Stdio.Command}, catalog.RedactArgs(s.Stdio.Args)...)
	for i, w := range words {
		words[i] = ShellWord(w)
	}
	return strings.Join(words, " ")
}

// ShellWord quotes a word for a shell when it needs it.
func ShellWord(word string) string {
	if word != "" && !strings.ContainsAny(word, " \t\n\"'\\$`;&|<>()*?[]{}~#!") {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
