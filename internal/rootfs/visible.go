package rootfs

import (
	"os"
	"path/filepath"
	"slices"
)

// system are the host's directories that a sandbox sees, read-only. Links among them
// (/bin → usr/bin) stay links.
var system = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt",
	"/nix", "/gnu",
	// The package managers' records; the rest of /var belongs to daemons.
	"/var/lib/dpkg", "/var/lib/apt", "/var/lib/ucf", "/var/lib/pam", "/var/lib/python",
	"/var/lib/rpm", "/var/lib/dnf", "/var/lib/pacman", "/var/lib/alternatives",
	"/var/cache/apt", "/var/cache/debconf", "/var/cache/ldconfig", "/var/cache/fontconfig",
	"/var/cache/man",
}

// toolchains are the places below a home where people's own tools live. They hold
// programs, no credentials, and are shown read-only; nothing else of a home is.
var toolchains = []string{
	".local/bin", ".local/lib", ".cargo/bin", ".rustup", "go/bin",
	".nvm/versions", ".nvm/alias", ".volta/bin", ".volta/tools", ".fnm", ".local/share/fnm",
	".local/share/pnpm", ".npm-global", ".bun/bin", ".deno/bin",
	".pyenv", ".rbenv", ".asdf", ".sdkman/candidates",
	".local/share/mise/installs", ".local/share/mise/shims",
	".local/share/uv/python", ".local/share/uv/tools", ".local/share/pipx", ".local/pipx",
}

// System lists the directories of this machine that hold programs and no secrets: the
// system's, and the user's own tools.
func System(home string) (all []string) {
	for _, dir := range Shown(home) {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			all = append(all, real)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Shown lists the directories of this machine that every sandbox sees at their own path,
// by that path.
func Shown(home string) (all []string) {
	dirs := slices.Clone(system)
	for _, t := range toolchains {
		dirs = append(dirs, filepath.Join(home, t))
	}
	return slices.DeleteFunc(dirs, func(dir string) bool {
		info, err := os.Stat(dir)
		return err != nil || !info.IsDir()
	})
}
