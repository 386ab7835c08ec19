package rootfs

import (
	"os"
	"path/filepath"
	"strings"
)

// ProfileFile is what interactive shells inside read: a list of the workspace's own
// scripts.
const ProfileFile = Own + "/profile"

// ProfileText is the content of ProfileFile.
func ProfileText(workspace string, scripts []string) string {
	var b strings.Builder
	for _, s := range scripts {
		path := "'" + strings.ReplaceAll(filepath.Join(workspace, s), "'", `'\''`) + "'"
		b.WriteString("if [ -r " + path + " ]; then . " + path + "; fi\n")
	}
	return b.String()
}

// keepPath returns /etc/profile with the PATH that a login shell was started with in the end, if
// coffer's programs are in it. Distributions set one that has neither these nor the user's tools.
func keepPath(profile string) string {
	return "case \":${PATH-}:\" in *:" + Own + "/bin:*) coffer_path=$PATH ;; esac\n" +
		strings.TrimSuffix(profile, "\n") + "\n" +
		"if [ \"${coffer_path-}\" ]; then\n\tPATH=$coffer_path\n\texport PATH\n\tunset coffer_path\nfi\n"
}

// shellStart is in the start-up files of shells, in the sandbox's own home: programs
// inside, and whoever works there, can change them as in any home.
const shellStart = "# Made by coffer: what the workspace has for shells.\n[ ! -r " + ProfileFile + " ] || . " + ProfileFile + "\n"

// profile has interactive shells read the scripts: sh by its variable ENV, see package
// inside, and others by the files in the home, if that is not the user's own.
func (p *Plan) profile(v View) {
	if v.Profile == "" {
		return
	}
	p.add(Step{Do: Replace, Target: ProfileFile, Data: v.Profile, Create: true})
	if v.Workspace == v.Home {
		return
	}
	for _, name := range []string{".bashrc", ".zshrc"} {
		p.add(Step{Do: Seed, Target: filepath.Join(v.Home, name), Data: shellStart})
	}
}

// clones are directories of a cache with clones of git repositories, whose configuration may
// hold a token. The sandbox has an empty directory in their place.
var clones = []string{"cache/vcs", "git-v0"}

// caches lays the overlays. Each takes a millisecond or so.
func (p *Plan) caches(v View) {
	for _, c := range v.Caches {
		lower := Own + "/caches/" + c.Name
		p.add(
			Step{Do: Bind, Source: c.Source, Target: lower, Mine: true, ReadOnly: true},
			Step{Do: Overlay, Source: lower, Target: c.Target, Data: "caches/" + c.Name},
		)
		for _, name := range clones {
			if info, err := os.Lstat(filepath.Join(c.Source, name)); err == nil && info.IsDir() {
				p.add(Step{Do: Scratch, Target: filepath.Join(c.Target, name)})
			}
		}
	}
}
