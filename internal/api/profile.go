package api

// Profile is a set of servers that agents can be given at once. It is there for as long as a server or an agent names it.
type Profile struct {
	Name    string          `json:"name"`
	Servers []ProfileServer `json:"servers"` // in order of name
	Agents  []string        `json:"agents"`  // that shall have them
}

// ProfileServer is one server of a profile.
type ProfileServer struct {
	Name     string   `json:"name"`
	Routable bool     `json:"routable"`
	Reasons  []string `json:"reasons"`        // why it is not, docs/catalog.md
	File     string   `json:"file,omitempty"` // of config/catalog: its profiles are written there
}

// ProfilePage lists profiles in order of name.
type ProfilePage struct {
	Profiles []Profile `json:"profiles"`
}

// ProfileRef names one profile.
type ProfileRef struct {
	Profile string `json:"-" path:"profile"`
}

// SetProfile says which servers a profile has, and which agents shall have them. What is nil or empty stays. Whose files, as in
// ConfigQuery.
type SetProfile struct {
	Profile string    `json:"-" path:"profile"`
	Servers *[]string `json:"servers,omitempty"` // names, in place of those that it has
	Add     []string  `json:"add,omitempty"`     // names of more servers
	Drop    []string  `json:"drop,omitempty"`    // names of servers that leave it
	Agents  *[]string `json:"agents,omitempty"`  // kinds, in place of those that have it
	Home    string    `json:"home,omitempty"`
	Project string    `json:"project,omitempty"`
	Moved   []string  `json:"moved,omitempty"`
}

// ProfileChange is the answer to SetProfile.
type ProfileChange struct {
	State   string    `json:"state"` // set, already_set; removed when nothing is left of it
	Already bool      `json:"already,omitempty"`
	Profile Profile   `json:"profile"`
	Plans   []PlanRow `json:"plans"` // for the agents that have it, or had it before
	Next    []string  `json:"next"`  // commands

	Operation string `json:"operation,omitempty"` // the id that the caller gave
}
