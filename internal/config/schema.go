package config

import (
	_ "embed"

	"github.com/cofferhq/coffer/internal/policy"
)

//go:generate go run ./gendoc

// JSONSchema describes config files to editors. It is made from the types below.
//
//go:embed schema.json
var JSONSchema []byte

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
	// Image is an OCI image that sandboxes have their system directories from, with all
	// tools, instead of this machine's: a name in a registry, or oci:DIR, oci-archive:FILE
	// or docker-archive:FILE, relative to the repository. It is pulled when it is not here;
	// see 'coffer images'. "none" stands for this machine's own tools.
	Image string `toml:"image" example:"\"debian:12\""`
	// Nesting lets programs make namespaces, as bwrap and the sandboxes of browsers do. The wall
	// is weaker. Container engines such as podman want more than that, and do not work.
	Nesting   bool      `toml:"nesting"`
	Workspace Workspace `toml:"workspace"`
	Limits    Limits    `toml:"limits"`
	Env       Env       `toml:"env"`
	// Masks are lines of .gitignore's language that say which files of the workspace
	// programs cannot read, replace, rename or remove, besides those that are built in; see
	// 'coffer masks'. One that begins with ! shows what others hide.
	Masks   []string         `toml:"masks" example:"[\"/config/production.yml\", \"*.secret\"]"`
	Mounts  map[string]Mount `toml:"mounts"`
	Network Network          `toml:"network"`
	Home    Home             `toml:"home"`
	// Caches are package caches of yours that programs find filled: what they add or
	// change stays in the sandbox. Those that you do not have are left out. Without a
	// list they are those that the project uses, by its files; [] lends none.
	Caches  []string          `toml:"caches" enum:"npm,pnpm,yarn,bun,pip,uv,cargo,go,maven,gradle" example:"[\"npm\", \"go\"]"`
	Setup   Setup             `toml:"setup"`
	Profile Profile           `toml:"profile"`
	Daemons map[string]Daemon `toml:"daemons"`
	Jail    Jail              `toml:"jail"`
	AI      AI                `toml:"ai"`
	Agents  map[string]Agent  `toml:"agents"`
	Git     Git               `toml:"git"`
}

// How the current directory is shown inside.
type Workspace struct {
	// Mode is worktree (a git worktree of the sandbox's own), direct (what programs write
	// lands), cow (changes wait for 'coffer apply'), none, or auto: a worktree for
	// 'coffer exec --create' and 'coffer ai' in a repository, and otherwise direct, as for
	// 'coffer run'.
	Mode string `toml:"mode" enum:"auto,worktree,direct,cow,none"`
}

// What a sandbox may use at most. What is not set is not limited.
type Limits struct {
	// Memory is a size, at least 6m.
	Memory string `toml:"memory" example:"\"2g\""`
	// Pids is a number of processes and threads, at least 32.
	Pids int `toml:"pids" example:"512"`
	// CPUs is a number of processors, which may be a fraction, at least 0.01.
	CPUs float64 `toml:"cpus" example:"1.5"`
	// OpenFiles is a number of open files of one process, at least 64.
	OpenFiles int `toml:"open_files" example:"4096"`
	// Timeout is a time after which the sandbox is ended.
	Timeout string `toml:"timeout" example:"\"30m\""`
	// KeepFree is how much of a disk is to stay free: with less, you are told, and a sandbox with a
	// cgroup is frozen until there is room. It is 1g unless you say otherwise; "0" looks at no disk.
	KeepFree string `toml:"keep_free" example:"\"5g\""`
}

// The environment variables of programs. Only the language, the terminal and the like
// go into a sandbox by themselves.
type Env struct {
	// Pass names variables of yours that are passed on if they are set. A * at the end
	// stands for any rest.
	Pass []string `toml:"pass" example:"[\"MY_SETTING\", \"BUILD_*\"]"`
	// Set gives variables a value. ${NAME} in it is your variable NAME or, while that is
	// not set, your secret NAME; ${secret:NAME} is the secret, see 'coffer secret'. One
	// must be there, or a text in its place: ${NAME:-text}. $$ is a dollar.
	Set map[string]string `toml:"set" example:"{ LEVEL = \"${LOG_LEVEL:-info}\", TOKEN = \"${secret:GITHUB_TOKEN}\" }"`
}

// A directory or file of this machine that is shown inside, besides the workspace. The
// name of the table is only a name.
type Mount struct {
	// Source is the place on this machine: absolute, below ~/, or relative to the
	// repository.
	Source string `toml:"source" example:"\"~/datasets\""`
	// Target is the place inside: absolute or below ~/. It cannot be where the system
	// or coffer itself is. In the workspace it must be there already, and the mount
	// read-only.
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
	// HostPorts are ports of this machine's loopback interface that programs reach as localhost:PORT
	// and host.coffer.internal:PORT. "INSIDE:OUTSIDE" gives it another number inside.
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

// The home of a sandbox, which is not yours and starts empty.
type Home struct {
	// Files are files of your home, or directories with all that is in them: each is
	// there, read-only, at the same place, as it was when the sandbox was started. Those
	// that you do not have are left out. Of an agent's settings the sandbox has a copy of
	// its own, in which the agent and coffer can write.
	Files []string `toml:"files" example:"[\"~/.claude/CLAUDE.md\", \"~/.claude/skills\"]"`
	// Git can be set to false: your git aliases, colours and styles (diff, log, merge, pull,
	// rebase) do not come along. Your name and address always do; an alias that runs a shell
	// and a setting that names a program, a file or a credential never do.
	Git *bool `toml:"git"`
}

// How a new sandbox is set up, once, before anything else runs in it. If that fails, there
// is no sandbox. It is for sandboxes that stay.
type Setup struct {
	// Scripts are files of the workspace, run one after the other. Without any,
	// .coffer/setup.sh is, if it is there.
	Scripts []string `toml:"scripts" example:"[\".coffer/setup.sh\"]"`
	// Commands are run by a shell, after the scripts.
	Commands []string `toml:"commands" example:"[\"npm ci\"]"`
	// Timeout is a time for all of it together; 30m without.
	Timeout string `toml:"timeout" example:"\"10m\""`
	// Run sets up the throw-away sandboxes of 'coffer run' as well, each time.
	Run bool `toml:"run"`
	// Enabled can be set to false: not even .coffer/setup.sh is run.
	Enabled *bool `toml:"enabled"`
	// Mise can be set to false: the tools that a mise.toml or .tool-versions names are
	// then neither on PATH nor installed inside.
	Mise *bool `toml:"mise"`
}

// What interactive shells inside (bash, zsh, sh) read when they start.
type Profile struct {
	// Scripts are files of the workspace. Without any, .coffer/profile.sh is read, if
	// it is there when the sandbox is made.
	Scripts []string `toml:"scripts" example:"[\".coffer/profile.sh\"]"`
	// Enabled can be set to false: none is read.
	Enabled *bool `toml:"enabled"`
}

// A program that is started inside before any other and runs for as long as the sandbox
// does. It does not keep an idle sandbox from being stopped. See 'coffer logs --daemon'.
type Daemon struct {
	// Command is the program and its arguments.
	Command []string `toml:"command" example:"[\"redis-server\", \"--port\", \"6379\"]"`
	// Cwd is where it runs: in the workspace, or an absolute path inside.
	Cwd string `toml:"cwd" example:"\"services\""`
	// Env gives variables a value, written as in env.set.
	Env map[string]string `toml:"env" example:"{ PORT = \"6379\" }"`
	// Restart says when it is started again after its end: never, on-failure (the
	// default) or always. The pauses between get longer, up to half a minute.
	Restart string `toml:"restart" enum:"never,on-failure,always"`
	// StopSignal asks it to end; TERM without.
	StopSignal string `toml:"stop_signal" example:"\"INT\""`
	// Grace is how long it may take to end; 5s without.
	Grace string `toml:"grace" example:"\"10s\""`
	// Ready is what to wait for before other programs start: a port of the sandbox
	// that is listened on, or a shell command that succeeds.
	Ready Ready `toml:"ready" example:"6379"`
	// ReadyTimeout is how long to wait for that; 30s without. Then the start fails.
	ReadyTimeout string `toml:"ready_timeout" example:"\"1m\""`
	// Enabled can be set to false to switch off a daemon that another file has.
	Enabled *bool `toml:"enabled"`
}

// What 'coffer jail' does by itself. Only your own config.toml can say it.
type Jail struct {
	// ContextRoots are directories: below one of them, it is the context, the
	// innermost if there are several.
	ContextRoots []string `toml:"context_roots" example:"[\"~/src/monorepo\"]"`
	// Write are further places that can be written to.
	Write []string `toml:"write" example:"[\"~/.cache/ccache\"]"`
	// Args are arguments for an agent, by its name, before those of the command line.
	Args map[string][]string `toml:"args" example:"{ claude = [\"--model\", \"opus\"] }"`
}

// A Ready is a port, or a command.
type Ready string

// What a sandbox gets of the git repository that it is made in, and may do with it.
type Git struct {
	// Copy are files that git ignores and a new worktree gets all the same, by their
	// paths in the repository. They are copied: what is changed inside stays there.
	Copy []string `toml:"copy" example:"[\".env\", \"config/local.json\"]"`
	// Push says what becomes of a push inside: ask (you), allow or deny.
	Push string `toml:"push" enum:"ask,allow,deny"`
	// PushPatterns are the branches upstream that may be pushed to. A * stands for
	// anything. Without any, it is the sandbox's own.
	PushPatterns []string `toml:"push_patterns" example:"[\"feature/*\"]"`
	// Upstream says what becomes of 'git fetch upstream' inside, for which the host
	// fetches from its remote with your credentials: ask (you), allow or deny.
	Upstream string `toml:"upstream" enum:"ask,allow,deny"`
	// GH says what becomes of a gh inside that changes something, with your login: it
	// opens a pull request, or comments on one. ask (you), allow or deny.
	GH string `toml:"gh" enum:"ask,allow,deny"`
	// GHRead is the same for a gh that reads pull requests, runs and issues of this
	// repository.
	GHRead string `toml:"gh_read" enum:"ask,allow,deny"`
	// Nested says what becomes of repositories below the workspace that are not its own,
	// where a sandbox works on your files themselves: lock (their git directories are
	// read-only) or open. What their config and hooks say is run when you use git there.
	Nested string `toml:"nested" enum:"lock,open"`
	// Take can be set to true: what 'coffer run' committed in your own directory becomes
	// your branch at its end, if that is a fast-forward, as with --take.
	Take bool `toml:"take"`
}

// A Port is a port of the host, "5432" or "8080:80". In TOML it may be a number.
type Port string

// What 'coffer ai' does when nothing else is said.
type AI struct {
	// Agent is the agent to start.
	Agent string `toml:"agent" example:"\"claude\""`
}

// A coding agent that coffer does not know, or a change to one that it does. The name of
// the table is the agent's name.
type Agent struct {
	// Command is the name of its program, which is looked for on PATH. Without it, the
	// program has the agent's name.
	Command string `toml:"command" example:"\"mine\""`
	// Package is the npm package that it is installed from if it is not on this machine.
	Package string `toml:"package" example:"\"@me/mine\""`
	// Args are given at every start: whatever makes it act without asking.
	Args []string `toml:"args" example:"[\"--yolo\"]"`
	// Headless comes before the prompt when nobody watches. Only for an agent that
	// coffer does not know.
	Headless []string `toml:"headless" example:"[\"-p\"]"`
	// Prompt comes before the prompt otherwise. Only for an agent that coffer does not know.
	Prompt []string `toml:"prompt" example:"[\"-i\"]"`
	// Resume is given when a conversation is to go on. Only for an agent that coffer does
	// not know.
	Resume []string `toml:"resume" example:"[\"--continue\"]"`
	// Conversation is a directory, or file, of its home that is there once there is a
	// conversation to go on with.
	Conversation string `toml:"conversation" example:"\".mine/sessions\""`
	// Instructions is the file of its home that it reads by itself, for the text that
	// says where it is.
	Instructions string `toml:"instructions" example:"\".mine/AGENTS.md\""`
	// State are directories of its home where it keeps what it remembers. In a jail it
	// can write there, and nowhere else in your home.
	State []string `toml:"state" example:"[\".mine\"]"`
	// Credentials are JSON files of its home by which it is logged in.
	Credentials []string `toml:"credentials" example:"[\".mine/auth.json\"]"`
	// Login is what it is started with to log in.
	Login []string `toml:"login" example:"[\"login\"]"`
	// Env are variables that it is given.
	Env map[string]string `toml:"env" example:"{ MINE_TELEMETRY = \"0\" }"`
	// Pass names variables of yours that it is passed if they are set.
	Pass []string `toml:"pass" example:"[\"MINE_API_KEY\"]"`
	// CA names the variables by which it is told a file of further certificates.
	CA []string `toml:"ca" example:"[\"NODE_EXTRA_CA_CERTS\"]"`
	// Hosts are targets that a sandbox made for it may reach, besides the group agents.
	Hosts []string `toml:"hosts" example:"[\"api.mine.example:443\"]"`
	// Enabled can be set to false: there is no such agent.
	Enabled *bool `toml:"enabled"`
}

// defaults are what holds when no file says anything.
const defaults = `
sandbox = "auto"
isolation = "auto"
nesting = false
[workspace]
mode = "auto"
[limits]
keep_free = "1g"
[network]
mode = "standard"
[git]
push = "ask"
upstream = "ask"
gh = "ask"
gh_read = "ask"
nested = "lock"
`
