package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"mcpx/internal/catalog"
	"mcpx/internal/fault"
)

// helpCommand is `mcpx help WORDS...`. That of the flag library succeeds for words that are no command.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Help about any command", Args: cobra.ArbitraryArgs,
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			at, rest, err := c.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return words(at), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			at, rest, err := c.Root().Find(args)
			if err != nil {
				return err
			}
			if len(rest) > 0 && at.HasSubCommands() {
				return unknownWord(at, rest[0])
			}
			at.InitDefaultHelpFlag()
			return at.Help()
		},
	}
}

// words lists the commands of a group.
func words(c *cobra.Command) []string {
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() || sub.IsAdditionalHelpTopicCommand() {
			names = append(names, sub.Name())
		}
	}
	return names
}

// synonyms are words that other programs have for our commands.
var synonyms = map[string]string{"rm": "remove", "delete": "remove", "del": "remove", "ls": "list", "get": "show", "new": "add", "log": "logs", "run": "up"}

// unknownWord is the error for a word that is no command of a group: it names the command that was meant.
func unknownWord(c *cobra.Command, word string) error {
	f := fault.New(fault.Invalid, "command-unknown").Saying("%s has no command %q", c.CommandPath(), word)
	meant := word
	if other, ok := synonyms[word]; ok {
		meant = other
	}
	if slices.Contains(words(c), meant) {
		return f.Hinting("did you mean `%s %s`?", c.CommandPath(), meant)
	}
	var elsewhere []string
	for _, group := range c.Root().Commands() {
		if group != c && slices.Contains(words(group), meant) {
			elsewhere = append(elsewhere, "`"+group.CommandPath()+" "+meant+"`")
		}
	}
	if len(elsewhere) > 0 {
		slices.Reverse(elsewhere) // the servers before the daemon, and before everything else
		slices.SortStableFunc(elsewhere, func(a, b string) int {
			first := func(s string) bool { return strings.HasPrefix(s, "`mcpx server ") }
			switch {
			case first(a) == first(b):
				return 0
			case first(a):
				return -1
			}
			return 1
		})
		return f.Hinting("did you mean %s?", strings.Join(elsewhere, " or "))
	}
	if near := catalog.Nearest(word, words(c)); near != "" {
		return f.Hinting("did you mean `%s %s`? `%s -h` lists all", c.CommandPath(), near, c.CommandPath())
	}
	return f.Hinting("`%s -h` lists all commands", c.CommandPath())
}
