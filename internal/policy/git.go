package policy

import (
	"slices"
	"strings"
	"sync"
)

// gitCommand is one subcommand of git that only reads.
type gitCommand struct {
	table *optionTable
	// list: operands are allowed only when one of these options makes the subcommand list; nil when they always are.
	list []string
	none bool   // no operands at all, whatever the options
	sub  string // the word that must come first: stash list
}

const (
	gitDiffOptions = `-# -p -u -s -U=? -X=? -z -B=? -M=? -C=? -D -l= -S= -G= !-O= -R -a -b -w -I= -W -1 -2 -3 -0 -c -m -t -r --patch --no-patch
		--unified= !--output= --output-indicator-new= --output-indicator-old= --output-indicator-context= --raw --patch-with-raw
		--indent-heuristic --no-indent-heuristic --minimal --patience --histogram --anchored= --diff-algorithm= --stat=?
		--stat-width= --stat-name-width= --stat-count= --stat-graph-width= --compact-summary --numstat --shortstat --dirstat=? --cumulative --dirstat-by-file=? --summary
		--patch-with-stat --name-only --name-status --submodule=? --color=? --no-color --color-moved=? --no-color-moved
		--color-moved-ws= --no-color-moved-ws --word-diff=? --word-diff-regex= --color-words=? --no-renames --rename-empty
		--no-rename-empty --check --ws-error-highlight= --full-index --binary --abbrev=? --no-abbrev --break-rewrites=?
		--find-renames=? --find-copies=? --find-copies-harder --irreversible-delete --diff-filter= --find-object= --pickaxe-all
		--pickaxe-regex --skip-to= --rotate-to= --relative=? --no-relative --text --ignore-cr-at-eol --ignore-space-at-eol
		--ignore-space-change --ignore-all-space --ignore-blank-lines --ignore-matching-lines= --inter-hunk-context=
		--function-context --exit-code --quiet !--ext-diff --no-ext-diff !--textconv --no-textconv --ignore-submodules=?
		--src-prefix= --dst-prefix= --no-prefix --default-prefix --line-prefix= --ita-invisible-in-index
		--ita-visible-in-index --cc --combined-all-paths --root --help`
	gitLogOptions = `-n= -L= -i -E -F -P -g -q -q --follow --decorate=? --no-decorate --decorate-refs= --decorate-refs-exclude= --clear-decorations --source
		--mailmap --no-mailmap --use-mailmap --no-use-mailmap --log-size --max-count= --skip= --since= --after= --until= --before=
		--since-as-filter= --author= --committer= --grep-reflog= --grep= --all-match --invert-grep --regexp-ignore-case --basic-regexp
		--extended-regexp --fixed-strings --perl-regexp --remove-empty --merges --no-merges --min-parents= --max-parents=
		--no-min-parents --no-max-parents --first-parent --exclude-first-parent-only --not --all --branches=? --tags=? --remotes=?
		--glob= --exclude= --exclude-hidden= --reflog --alternate-refs --single-worktree --ignore-missing --bisect --stdin
		--cherry-mark --cherry-pick --left-only --right-only --cherry --walk-reflogs --merge --boundary --simplify-by-decoration
		--show-pulls --full-history --dense --sparse --simplify-merges --ancestry-path=? --date-order --author-date-order
		--topo-order --reverse --no-walk=? --do-walk --pretty=? --format= --abbrev-commit --no-abbrev-commit --oneline --encoding=
		--expand-tabs=? --no-expand-tabs --notes=? --no-notes --show-notes=? --standard-notes --no-standard-notes
		--show-notes-by-default !--show-signature --no-show-signature --relative-date --date= --parents --children --left-right --graph --no-graph
		--show-linear-break=? --diff-merges= --no-diff-merges --remerge-diff --dd`
	gitListOptions = `--sort= --format= --color=? --no-color --column=? --no-column --points-at= --contains=? --no-contains=? --merged=?
		--no-merged=? -i --ignore-case --omit-empty`
)

// gitCommands are the subcommands that only read, and the listing forms of some that also write.
var gitCommands = sync.OnceValue(func() map[string][]gitCommand {
	diff := newTable(gitDiffOptions)
	log := newTable(gitLogOptions).merged(diff)
	list := newTable(gitListOptions)
	t := func(options string) gitCommand { return gitCommand{table: newTable(options)} }
	lists := []string{"-l", "--list", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at"}
	return map[string][]gitCommand{
		"diff":         {{table: newTable("--cached --staged --merge-base --no-index --base --ours --theirs").merged(diff)}},
		"diff-tree":    {{table: newTable("-v --stdin --merge-base --pretty=? --no-commit-id --always").merged(diff)}},
		"log":          {{table: log}},
		"show":         {{table: log}},
		"shortlog":     {{table: newTable("-n -s -e -c -w=? --numbered --summary --email --group=").merged(log)}},
		"rev-list":     {{table: newTable(`--count --objects --objects-edge --unpacked --disk-usage=? --timestamp --header --use-bitmap-index --progress= --filter= --no-filter --missing= --in-commit-order --object-names --no-object-names --bisect-vars --bisect-all --max-age= --min-age= --no-commit-header --commit-header`).merged(log)}},
		"status":       {t(`-s -b -v -u=? -z --short --branch --show-stash --porcelain=? --long --verbose --untracked-files=? --ignore-submodules=? --ignored=? --column=? --no-column --ahead-behind --no-ahead-behind --renames --no-renames --find-renames=?`)},
		"rev-parse":    {t(`-q --git-dir --show-toplevel --abbrev-ref=? --short=? --verify --quiet --is-inside-work-tree --is-inside-git-dir --is-bare-repository --is-shallow-repository --show-prefix --show-cdup --show-superproject-working-tree --git-common-dir --absolute-git-dir --all --branches=? --tags=? --remotes=? --symbolic --symbolic-full-name --default= --revs-only --no-revs --flags --no-flags --not --disambiguate= --path-format= --git-path= --since= --until= --after= --before= --local-env-vars --sq --show-object-format=? --show-ref-format --shared-index-path --exclude= --glob=`)},
		"ls-files":     {t(`-z -t -v -f -c -d -o -i -s -u -k -m -x= -X=@ --cached --deleted --others --ignored --stage --directory --no-empty-directory --eol --unmerged --killed --modified --resolve-undo --exclude= --exclude-from=@ --exclude-per-directory= --exclude-standard --error-unmatch --with-tree= --full-name --recurse-submodules --abbrev=? --debug --deduplicate --format= --sparse`)},
		"ls-tree":      {t(`-d -r -t -l -z --long --name-only --name-status --object-only --full-name --full-tree --abbrev=? --format=`)},
		"cat-file":     {t(`-t -s -e -p -z -Z --batch=? --batch-check=? --batch-command=? --batch-all-objects --buffer --unordered --follow-symlinks --allow-unknown-type !--textconv !--filters --path= --use-mailmap --no-use-mailmap --mailmap --no-mailmap --filter=`)},
		"blame":        {t(`-b -L= -l -t -S=@ -p -M=? -C=? -h -c -f -n -s -e -w --root --show-stats --reverse=? --first-parent --porcelain --line-porcelain --incremental --encoding= !--contents=@ --date= --progress --no-progress --score-debug --show-name --show-number --show-email --abbrev= --minimal --color-lines --color-by-age --ignore-rev= --ignore-revs-file=@ --diff-algorithm=`)},
		"describe":     {t(`--dirty=? --broken=? --all --tags --contains --abbrev= --candidates= --exact-match --debug --long --match= --exclude= --always --first-parent`)},
		"merge-base":   {t(`-a --all --octopus --independent --is-ancestor --fork-point`)},
		"name-rev":     {t(`--tags --refs= --no-refs --exclude= --all --annotate-stdin --stdin --name-only --no-undefined --undefined --always`)},
		"grep":         {t(`-# -v -i -w -a -I -r -E -G -P -F -n -h -H -l -L !-O=? -z -o -c -p -C= -A= -B= -W -m= -f=@ -e= -q --cached --untracked --no-index --exclude-standard --no-exclude-standard --recurse-submodules --invert-match --ignore-case --word-regexp --text !--textconv --no-textconv --recursive --no-recursive --max-depth= --extended-regexp --basic-regexp --perl-regexp --fixed-strings --line-number --column --full-name --files-with-matches --name-only --files-without-match !--open-files-in-pager=? --null --only-matching --count --color=? --no-color --break --heading --show-function --context= --after-context= --before-context= --function-context --max-count= --threads= --and --or --not --all-match --quiet`)},
		"show-ref":     {t(`-d -s=? -q --head --heads --branches --tags --dereference --hash=? --verify --exists --abbrev=? --quiet --exclude-existing=?`)},
		"for-each-ref": {{table: newTable(`--count= --exclude= --include-root-refs --stdin --shell --perl --python --tcl`).merged(list)}},
		"branch":       {{table: newTable(`-a -r -l -v -q --all --remotes --list --verbose --quiet --abbrev=? --no-abbrev --show-current`).merged(list), list: lists}},
		"tag":          {{table: newTable(`-l -n=? --list`).merged(list), list: append(slices.Clone(lists), "-n")}},
		"remote":       {{table: newTable("-v --verbose"), none: true}, {table: newTable("--push --all"), sub: "get-url"}},
		"stash":        {{table: log, sub: "list"}, {table: newTable("--include-untracked --only-untracked -u").merged(diff), sub: "show"}},
		"worktree":     {{table: newTable("-v -z --verbose --porcelain --expire="), sub: "list", none: true}},
	}
})

// git judges git.
func (s *script) git(c *call, found []finding) {
	args := c.args[1:]
	at := c.dirs
	sc := c.scope
	for len(args) > 0 && len(args[0].text) > 1 && args[0].text[0] == '-' && !args[0].dynamic {
		switch option := args[0].text; {
		case option == "-C" && len(args) > 1 && !args[1].dynamic:
			sc.dirs = at
			found = append(found, notAllowed(s.readPath(args[1].text, sc))...)
			at = s.enter(args[1].text, sc)
			args = args[1:]
		case option == "--no-pager", option == "--no-optional-locks":
		default:
			found = append(found, confirm("git.option", "the option "+quote(option)+" of git is not in the list of harmless ones"))
			if takesValue(option) && len(args) > 1 {
				args = args[1:]
			}
		}
		args = args[1:]
	}
	sc.dirs = at
	found = append(found, s.repository(sc)...)
	if len(args) == 0 || args[0].dynamic {
		found = append(found, s.fileArguments(c)...)
		if len(args) > 0 {
			found = append(found, confirm("args.dynamic", "the subcommand is not known before it runs"))
		}
		s.decideLeaf(c, confirm("default", "no rule allows git alone"), nil, found)
		return
	}
	s.gitSubcommand(c, sc, args, found)
}

// takesValue tells that a global option of git is followed by its value.
func takesValue(option string) bool {
	switch option {
	case "-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env", "--exec-path", "--super-prefix", "--attr-source":
		return true
	}
	return false
}

func (s *script) gitSubcommand(c *call, sc scope, args []arg, found []finding) {
	name := args[0].text
	var command *gitCommand
	rest := args[1:]
	for i, g := range gitCommands()[name] {
		if g.sub == "" || len(rest) > 0 && rest[0].text == g.sub && !rest[0].dynamic {
			command = &gitCommands()[name][i]
		}
	}
	if command == nil {
		found = append(found, s.fileArguments(c)...)
		s.decideLeaf(c, confirm("default", "no rule allows git "+quote(name)), args, found)
		return
	}
	if command.sub != "" {
		rest = rest[1:]
	}
	p := command.table.parse(rest)
	found = append(found, p.problems("git "+name)...)
	if anyDynamic(c.args) {
		found = append(found, confirm("args.dynamic", "an argument is not known before it runs"))
	}
	for _, o := range p.options {
		if o.spec.kind == kindFile && o.given {
			found = append(found, s.readOperand(o.value, sc)...)
		}
	}
	if len(p.operands) > 0 && (command.none || command.list != nil && !slices.ContainsFunc(command.list, p.has)) {
		found = append(found, confirm("default", "git "+name+" with an operand does more than list"))
	}
	found = append(found, s.gitOperands(name, &p, sc)...)
	s.decideLeaf(c, vettedRule("git"), append([]arg{args[0]}, p.words()...), found)
}

// gitOperands judges operands as files, where they may be: a revision, a path, or a path in a revision.
func (s *script) gitOperands(name string, p *parsed, sc scope) []finding {
	operands := p.operands
	noIndex := p.has("--no-index")
	if name == "grep" {
		operands = patternOperands(p, "-e", "-f")
	}
	if noIndex {
		found := s.readOperands(operands, sc)
		if name == "grep" && len(operands) == 0 {
			operands = statics(".")
		}
		return append(found, s.readTree(operands, sc)...)
	}
	var found []finding
	for _, a := range operands {
		if a.dynamic || a.pipe {
			continue
		}
		file := a.text
		if revision, inside, ok := strings.Cut(file, ":"); ok && !strings.Contains(revision, "/.") {
			file = strings.TrimLeft(inside, "/:!^")
		}
		outsideToo := strings.HasPrefix(a.text, "/") || slices.Contains(strings.Split(a.text, "/"), "..")
		for _, f := range notAllowed(s.readPath(file, sc)) {
			if f.decision == Deny || outsideToo {
				found = append(found, f)
			}
		}
	}
	return found
}

// repository finds settings of the repository that run programs.
func (s *script) repository(sc scope) []finding {
	for _, dir := range s.current(sc) {
		for _, key := range s.world.Repository(dir).Keys {
			if RunsPrograms(key) {
				return []finding{confirm("git.repo-config", "the configuration of the repository sets "+quote(key)+", which runs programs")}
			}
		}
	}
	if sc.dirs.unknown {
		return []finding{confirm("path.unresolved", "which repository git finds depends on the directory")}
	}
	return nil
}

// RunsPrograms tells that a setting of git makes it start a program, or read more settings.
func RunsPrograms(key string) bool {
	key = strings.ToLower(key)
	section, _, _ := strings.Cut(key, ".")
	switch section {
	case "alias", "filter", "include", "includeif", "pager", "hook":
		return true
	}
	last := key[strings.LastIndexByte(key, '.')+1:]
	switch last {
	case "path":
		return section == "difftool" || section == "mergetool"
	case "fsmonitor", "hookspath", "sshcommand", "pager", "editor", "askpass", "gitproxy", "command", "cmd", "textconv", "external",
		"driver", "program", "helper", "difffilter", "uploadpack", "receivepack", "vcs", "defaultkeycommand", "packobjectshook",
		"alternaterefscommand":
		return true
	}
	return false
}
