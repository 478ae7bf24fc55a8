package api

import "mcpx/internal/converge"

// ConfigQuery says whose configuration is looked at.
type ConfigQuery struct {
	Agent   string `json:"-" query:"agent"`   // kind of agent; "" all
	Home    string `json:"-" query:"home"`    // absolute home directory; "" that of the daemon
	Project string `json:"-" query:"project"` // absolute directory whose project files count; "" none
	// Moved are variables of the caller that move files of agents, as NAME=PATH. They win over those of the daemon.
	Moved []string `json:"-" query:"moved"`
}

// ConfigFiles is every place where an agent looks for servers, whether there is a file or not.
type ConfigFiles struct {
	Files []converge.File `json:"files"`
}

// ConfigReport is every entry with what it means for the catalog.
type ConfigReport struct {
	Files    []converge.File        `json:"files"` // those that exist
	Entries  []converge.Finding     `json:"entries"`
	Counts   map[converge.Class]int `json:"counts"`   // entries of each class that occurs
	Revision string                 `json:"revision"` // of the catalog that they were compared with
}
