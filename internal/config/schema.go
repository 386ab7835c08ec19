package config

import "github.com/cofferhq/coffer/internal/policy"

//go:generate go run ./gendoc

// The comments of these types are the text of docs/config.md and of the JSON Schema:
// the first is about a table, the others about its keys.

// A config file says how the sandboxes of a repository, or of a user, are made.
type Config struct {
	// Presets are ready-made configs to start from; see 'coffer presets'. What the
	// file itself says counts more.
	Presets []string `toml:"presets" example:"[\"node\", \"claude-code\"]"`
	// Sandbox says what happens where the best wall cannot be had: auto takes the
	// strongest that isolation accepts, and says what is lost; require fails; off runs
	// programs without any, after a warning and your yes. A repository cannot say off.
	Sandbox string `toml:"sandbox" enum:"auto,require,off"`
	// Isolation is the weakest wall that is accepted: a container, or a jail. Auto is a
	// jail, and with sandbox = "require" a container.
	Isolation string `toml:"isolation" enum:"auto,jail,container"`
	// Nesting allows containers inside. The wall is weaker: programs may make
	// namespaces.
	Nesting   bool             `toml:"nesting"`
	Workspace Workspace        `toml:"workspace"`
	Limits    Limits           `toml:"limits"`
	Env       Env              `toml:"env"`
	Mounts    map[string]Mount `toml:"mounts"`
	Network   Network          `toml:"network"`
}

// How the current directory is shown inside.
type Workspace struct {
	// Mode is direct (what programs write lands), cow (changes wait for 'coffer
	// apply') or none.
	Mode string `toml:"mode" enum:"direct,cow,none"`
}

// What a sandbox may use at most. What is not set is not limited.
type Limits struct {
	// Memory is a size.
	Memory string `toml:"memory" example:"\"2g\""`
	// Pids is a number of processes and threads, at least 32.
	Pids int `toml:"pids" example:"512"`
	// CPUs is a number of processors, which may be a fraction.
	CPUs float64 `toml:"cpus" example:"1.5"`
	// OpenFiles is a number of open files of one process, at least 64.
	OpenFiles int `toml:"open_files" example:"4096"`
	// Timeout is a time after which the sandbox is ended.
	Timeout string `toml:"timeout" example:"\"30m\""`
}

// The environment variables of programs. Only the language, the terminal and the like
// go into a sandbox by themselves.
type Env struct {
	// Pass names variables of yours that are passed on if they are set. A * at the end
	// stands for any rest.
	Pass []string `toml:"pass" example:"[\"MY_SETTING\", \"BUILD_*\"]"`
	// Set gives variables a value. ${NAME} in it is your variable NAME, which must be
	// set; ${NAME:-text} is the text if it is not set or empty; $$ is a dollar.
	Set map[string]string `toml:"set" example:"{ NODE_ENV = \"test\", LEVEL = \"${LOG_LEVEL:-info}\" }"`
}

// A directory or file of this machine that is shown inside, besides the workspace. The
// name of the table is only a name.
type Mount struct {
	// Source is the place on this machine: absolute, below ~/, or relative to the
	// repository.
	Source string `toml:"source" example:"\"~/datasets\""`
	// Target is the place inside: absolute or below ~/. It cannot be in the
	// workspace, nor where the system or coffer itself is.
	Target string `toml:"target" example:"\"/data\""`
	// ReadOnly keeps programs from changing it. That is so unless you say false.
	ReadOnly *bool `toml:"read_only"`
	// Missing says what to do when there is no source: fail, warn (and go on without
	// it) or create (an empty directory). Fail is the default.
	Missing string `toml:"missing" enum:"fail,warn,create"`
	// Enabled can be set to false to switch the mount off that another file has.
	Enabled *bool `toml:"enabled"`
}

// What programs may reach.
type Network struct {
	// Mode is where to start from: none, standard (what development needs), ask (you,
	// for the rest) or open (anything public).
	Mode string `toml:"mode" enum:"none,standard,ask,open"`
	// Default is what happens when no rule matches. Without it the mode decides.
	Default string `toml:"default" enum:"deny,ask,allow"`
	// Groups are built-in lists of hosts to allow; see 'coffer policy groups'.
	Groups []string `toml:"groups" example:"[\"npm\", \"git-hosts\"]"`
	// HostPorts are ports of this machine's loopback interface that programs reach as
	// host.coffer.internal:PORT. "INSIDE:OUTSIDE" gives it another number inside.
	HostPorts []Port `toml:"host_ports" example:"[5432, \"8080:80\"]"`
	// Publish are ports of this machine's loopback interface that lead to ports inside:
	// "HOST:INSIDE", one number for both, or ":INSIDE" for any that is free.
	Publish []Port `toml:"publish" example:"[3000, \"8080:80\"]"`
	// SocketIn are Unix sockets of this machine that programs inside can reach:
	// "HOSTPATH" or "HOSTPATH:INSIDEPATH". HOSTPATH is absolute or below ~/.
	SocketIn []string `toml:"socket_in" example:"[\"/run/postgresql/.s.PGSQL.5432\"]"`
	// SocketOut are Unix sockets inside that can be reached on this machine:
	// "INSIDEPATH:HOSTPATH".
	SocketOut []string `toml:"socket_out" example:"[\"/tmp/app.sock:~/app.sock\"]"`
	// Rules allow, deny or ask. A rule that denies beats one that allows.
	Rules []policy.RuleSource `toml:"rules"`
}

// A Port is a port of the host, "5432" or "8080:80". In TOML it may be a number.
type Port string

// reserved are the keys that are planned. A file that has one wants something that it
// would not get, so it is refused.
var reserved = map[string]string{
	"image": "images", "masks": "masks", "git": "the git bridge", "agents": "settings of agents",
	"home": "settings of the home", "caches": "caches", "daemons": "daemons", "setup": "setup scripts", "profile": "profile scripts",
	"network.middleware": "middleware",
}

// defaults are what holds when no file says anything.
const defaults = `
sandbox = "auto"
isolation = "auto"
nesting = false
[workspace]
mode = "direct"
[network]
mode = "standard"
`
