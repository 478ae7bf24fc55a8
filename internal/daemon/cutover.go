package daemon

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"mcpx/internal/catalog"
	"mcpx/internal/fault"
	"mcpx/internal/gate"
)

// sectionCutover holds rules in place of settings: a table for each other hub.
const sectionCutover = "cutover"

// hubRules is one table of the section.
type hubRules struct {
	Ports       []int    `toml:"ports"`
	URLPatterns []string `toml:"url_patterns"`
	Commands    []string `toml:"commands"`
	Units       []string `toml:"units"`
	Files       []string `toml:"files"`
}

// Hub reads the rule for another hub from the settings file: cutover.NAME.
func Hub(file, name string) (gate.Hub, error) {
	all, err := Hubs(file)
	if err != nil {
		return gate.Hub{}, err
	}
	for _, h := range all {
		if h.Name == name {
			return h, nil
		}
	}
	f := fault.New(fault.NotFound, "cutover-unknown").Saying("%s has no rule cutover.%s", file, name)
	var names []string
	for _, h := range all {
		names = append(names, h.Name)
	}
	if near := catalog.Nearest(name, names); near != "" {
		return gate.Hub{}, f.Hinting("did you mean %s?", near)
	}
	return gate.Hub{}, f.Hinting("write a table [cutover.%s] with ports, url_patterns, commands, units or files; docs/operations.md has an example", name)
}

// Hubs reads the rules for other hubs, by name.
func Hubs(file string) ([]gate.Hub, error) {
	data, err := readPlain(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fault.New(fault.Invalid, "settings-unreadable").Saying("the settings file cannot be read").Because(err).Hinting("check its owner and mode")
	}
	if _, err := readFile(file); err != nil { // it tells where the text is broken
		return nil, err
	}
	var sections map[string]any
	if err := toml.Unmarshal(data, &sections); err != nil {
		return nil, fault.New(fault.Invalid, "settings-broken").Saying("%s is no TOML", file).Because(err).Hinting("correct the file")
	}
	return hubsOf(file, sections[sectionCutover])
}

func hubsOf(file string, section any) ([]gate.Hub, error) {
	if section == nil {
		return nil, nil
	}
	invalid := func(why error) ([]gate.Hub, error) {
		return nil, fault.New(fault.Invalid, "cutover-invalid").Saying("%s: the section cutover is not as it should be", file).Because(why).
			Hinting("each table [cutover.NAME] has lists: ports of numbers, url_patterns, commands, units and files of texts")
	}
	text, err := toml.Marshal(section)
	if err != nil {
		return invalid(err)
	}
	tables := map[string]hubRules{}
	if err := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields().Decode(&tables); err != nil {
		return invalid(err)
	}
	var all []gate.Hub
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		r := tables[name]
		if err := catalog.ValidName(name); err != nil {
			return invalid(err)
		}
		if len(r.Ports)+len(r.URLPatterns)+len(r.Commands) == 0 {
			return invalid(errors.New("cutover." + name + " says nothing by which an entry could be recognised"))
		}
		if slices.ContainsFunc(r.Ports, func(p int) bool { return p < 1 || p > 65535 }) || slices.ContainsFunc(r.Commands, func(c string) bool { return c == "" || strings.ContainsAny(c, `/\`) }) {
			return invalid(errors.New("cutover." + name + " has a port that is none, or a command with a path"))
		}
		all = append(all, gate.Hub{Name: name, Ports: r.Ports, URLPatterns: r.URLPatterns, Commands: r.Commands, Units: r.Units, Files: r.Files})
	}
	return all, nil
}
