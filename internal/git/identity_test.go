package git

import (
	"strings"
	"testing"
)

func TestComesAlong(t *testing.T) {
	for setting, want := range map[string]bool{
		"alias.co=checkout": true, "alias.lg=log --graph\n\t--oneline": true, "alias.sh=!sh": false, "alias.sh= !sh": false,
		"alias.a.b=log": false, "alias.ü=log": false, "alias.x=a\x1b[m": false, "alias.x=" + strings.Repeat("x", maxSetting+1): false,
		"diff.algorithm=histogram": true, "diff.external=x": false, "diff.x.textconv=x": false, "diff.tool=x": false, "diff.orderfile=x": false,
		"color.ui=auto": true, "color.diff.old=red": true, "color.a\"]b.old=red": false, "advice.detachedhead=false": true,
		"core.pager=less": false, "core.editor=vi": false, "core.hookspath=x": false, "core.fsmonitor=x": false, "core.sshcommand=x": false,
		"credential.helper=x": false, "url.x.insteadof=y": false, "include.path=x": false, "includeif.x.path=y": false, "init.templatedir=x": false,
		"pull.rebase=true": true, "merge.conflictstyle=zdiff3": true, "merge.tool=x": false, "merge.x.driver=y": false, "interactive.difffilter=x": false,
		"filter.x.clean=y": false, "gpg.program=x": false, "user.signingkey=x": false, "sequence.editor=x": false, "pager.log=x": false,
	} {
		key, value, _ := strings.Cut(setting, "=")
		if comesAlong(key, value) != want {
			t.Errorf("%q: %v, want %v", setting, !want, want)
		}
	}
}
