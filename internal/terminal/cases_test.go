package terminal

// What passes untouched and needs no answer.
var passes = []string{
	// Text.
	"", "plain text", "tabs\tand\r\nlines\v\f\b\a\x00", "del \x7f",
	"naïve – 漢字 – 🎉 👩‍👩‍👧 e\u0301 \u200b\u00a0",
	"\u0100\u07ff\u0800\ud7ff\ufffd\uffff\U00010000\U0010ffff",
	"✳ title", "\u00a0", "latin \xe9\xfc x", "\xff\xfe", "\xc3(", "\xe2\xac(", "\xf0(",
	"0123456\r89abcdef\n", "\x0e lqk \x0f",
	// Colours.
	"\x1b[m", "\x1b[0m", "\x1b[1;31m", "\x1b[38;5;200m", "\x1b[38;2;1;2;3m",
	"\x1b[38:2::1:2:3m", "\x1b[4:3m\x1b[58:5:1m", "\x1b[;m",
	// Cursor, erasing, scrolling.
	"\x1b[H", "\x1b[12;40H", "\x1b[A\x1b[2B\x1b[3C\x1b[4D", "\x1b[999;999H", "\x1b[999999999C",
	"\x1b[5d\x1b[6G", "\x1b[2J\x1b[K\x1b[1K\x1b[3J\x1b[?J", "\x1b[3L\x1b[3M\x1b[3P\x1b[3@\x1b[3X",
	"\x1b[2;20r", "\x1b[r", "\x1b[5S\x1b[5T", "\x1b[10b", "\x1b[s\x1b[u", "\x1b7\x1b8",
	"\x1bM\x1bD\x1bE\x1bH", "\x1b[3g", "\x1b[2 q", "\x1b[1\"q", "\x1b[!p", "\x1bc",
	"\x1b[1;1;2;2$z", "\x1b[65;1;1;2;2$x", "\x1b[#{\x1b[#}",
	// Character sets.
	"\x1b(0lqk\x1b(B", "\x1b)0", "\x1b%G", "\x1b#8", "\x1b F",
	// Modes.
	"\x1b[?1049h", "\x1b[?1049l", "\x1b[?47h\x1b[?47l", "\x1b[?25l\x1b[?25h", "\x1b[?2004h",
	"\x1b[?1000l", "\x1b[?1000;1002;1003;1006l", "\x1b[?1h\x1b=", "\x1b[?1l\x1b>", "\x1b[?7l",
	"\x1b[?2026h\x1b[?2026l", "\x1b[4h\x1b[4l", "\x1b[?3;4l", "\x1b[?1034h", "\x1b[?12h",
	"\x1b[?s", "\x1b[?r", "\x1b[?1;7s",
	// Keyboard.
	"\x1b[>1u", "\x1b[<u", "\x1b[=1;1u", "\x1b[>4;2m", "\x1b[>4m", "\x1b[>4n", "\x1b[>4;1f",
	// Titles and their stack.
	"\x1b]0;title\a", "\x1b]2;title\x1b\\", "\x1b]1;ícon ✳\a", "\x1b]0;\a", "\x1b[22;0;0t", "\x1b[23;0;0t",
	// Other commands.
	"\x1b]8;;https://example.org/\x1b\\link\x1b]8;;\x1b\\", "\x1b]8;id=1;https://x\a",
	"\x1b]4;1;rgb:ff/00/00\a", "\x1b]4;1;#ff0000;2;red\a", "\x1b]10;white\a", "\x1b]11;#000000\x1b\\",
	"\x1b]12;dark slate blue\a", "\x1b]104\a", "\x1b]104;1;2\a", "\x1b]110\a", "\x1b]112;\a",
	"\x1b]22;pointer\x1b\\", "\x1b]22;>wait\x1b\\",
	"\x1b]9;done\a", "\x1b]9;4;1;50\a", "\x1b]9;4;0\a", "\x1b]777;notify;title;body\a",
	"\x1b]99;;hello\x1b\\", "\x1b]99;i=1:d=0:p=title;hello\x1b\\",
	"\x1b]133;A\a", "\x1b]133;D;0\a", "\x1b]133;A;aid=12;k=s\x1b\\", "\x1b]66;s=2;big\a",
	"\x1b]30001\x1b\\", "\x1b]1337;SetMark\a", "\x1b]1337;CursorShape=1\a",
	// Images.
	"\x1bPq#0;2;0;0;0#0~~@@\r\n-\x1b\\", "\x1bP0;1;0q\"1;1;9;9~\x1b\\",
	"\x1b_Ga=T,f=100,t=d,q=2;QUJD\x1b\\", "\x1b_Ga=d,q=2\x1b\\", "\x1b_Gm=0,q=2;QUJD\x1b\\",
	"\x1b]1337;File=inline=1:QUJD\a", "\x1b]1337;File=name=eA==;size=3;width=10;inline=1:QU\nJD\x1b\\",
	"\x1b]1337;MultipartFile=inline=1\a\x1b]1337;FilePart=QUJD\a\x1b]1337;FileEnd\a",
	// Synchronized output, older form.
	"\x1bP=1s\x1b\\", "\x1bP=2s\x1b\\",
}

// What passes untouched and makes the terminal send something.
var passesAsking = []string{
	"\x1b[c", "\x1b[0c", "\x1b[>c", "\x1b[>0c", "\x1b[=c", "\x1b[>q", "\x1b[>0q", "\x1bZ",
	"\x1b[5n", "\x1b[6n", "\x1b[?6n", "\x1b[?996n",
	"\x1b[?2026$p", "\x1b[4$p", "\x1b[?u", "\x1b[?4m", "\x1b[?1;1;0S",
	"\x1b[14t", "\x1b[14;2t", "\x1b[16t", "\x1b[18t", "\x1b[19t",
	"\x1b]4;1;?\a", "\x1b]4;1;red;2;?\a", "\x1b]10;?\x1b\\", "\x1b]11;?\a", "\x1b]10;?;?\a", "\x1b]12;?\a",
	"\x1b]1337;ReportCellSize\a",
	"\x1bP+q544e\x1b\\", "\x1bP+q544e;436F\x1b\\",
	"\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\",
	"\x1b[?1000h", "\x1b[?1002;1006h", "\x1b[?1004h", "\x1b[?2031h", "\x1b[?2048h",
}

// What leaves nothing behind.
var drops = []string{
	// Text typed back.
	"\x05", "\x1b[20t", "\x1b[21t", "\x1b[021t", "\x1b[21;0t", "\x1b[21:0t", "\x1b[4294967317t",
	"\x1b[>1t", "\x1b[>2T", "\x1bP$qm\x1b\\", "\x1bP$q\"p\x1b\\", "\x1b[1$w", "\x1b[2$w", "\x1b[1$u", "\x1b[&u",
	"\x1b[1;1;1;1;9;9*y", "\x1b[5+p", "\x1b[?63;1n", "\x1b[?62n", "\x1b[1*z", "\x1b[#|", "\x1b[#R",
	"\x1bP0;0|17/6c730a\x1b\\", "\x1bP1;1|17/6c73\x1b\\", "\x1bP1;0;1!z6c73\x1b\\", "\x1bP>|x\x1b\\",
	"\x1bP+q5G\x1b\\", "\x1bP+q\x1b\\", "\x1bP+p544e\x1b\\", "\x1bP1+q544e\x1b\\",
	// The clipboard, and files.
	"\x1b]52;c;?\a", "\x1b]52;c;aGVsbG8=\a", "\x1b]52;p;aGk=\x1b\\", "\x1b]5522;type=read;Lg==\x1b\\",
	"\x1b]5113;ac=send\x1b\\",
	"\x1b]1337;Copy=:aGk=\a", "\x1b]1337;File=:QUJD\a", "\x1b]1337;File=inline=0:QUJD\a",
	"\x1b]1337;File=inline=1;inline=0:QUJD\a", "\x1b]1337;File=name=eA==:QUJD\a", "\x1b]1337;File=inline=1\a",
	"\x1b]1337;MultipartFile=name=eA==\a", "\x1b]1337;FilePart=?\a",
	"\x1b]1337;ReportVariable=cGF0aA==\a", "\x1b]1337;RequestUpload=format=tgz\a", "\x1b]1337;SetUserVar=a=Yg==\a",
	"\x1b]1337;CurrentDir=/tmp\a", "\x1b]1337;SetProfile=x\a", "\x1b]1337;OpenURL=:aA==\a", "\x1b]1337\a",
	"\x1b_Ga=T,t=f;L2V0Yy9wYXNzd2Q=\x1b\\", "\x1b_Gt=t,a=T;L3RtcC94\x1b\\", "\x1b_Gt=s;eA==\x1b\\",
	"\x1b_Gt=d,t=f;eA==\x1b\\", "\x1b_Ga=T, t=f;eA==\x1b\\", "\x1b_Gt=;eA==\x1b\\", "\x1b_G,;eA==\x1b\\", "\x1b_Gt=f\x1b\\",
	"\x1b_Ga=T,t=f;QUJD;QUJD\x1b\\", "\x1b_X;y\x1b\\", "\x1b_\x1b\\", "\x1b_;\x1b\\",
	// Printing, windows, the world.
	"\x1b[i", "\x1b[0i", "\x1b[5i", "\x1b[?5i", "\x1b[4i", "\x1b[8;50;200t", "\x1b[1t", "\x1b[2t", "\x1b[3;0;0t", "\x1b[t", "\x1b[30t",
	"\x1b[11t", "\x1b[13t", "\x1b[;21t",
	"\x1b]7;file:///etc\a", "\x1b]6;file:///etc\a", "\x1b]3;WM_NAME=x\a", "\x1b]50;?\a", "\x1b]50;#1\a", "\x1b]50;fixed\x1b\\",
	"\x1b]46;/tmp/log\a", "\x1b]701;C\a", "\x1b]702;?\a", "\x1b]720;1\a", "\x1b]776;?\a", "\x1b]777;precmd\a", "\x1b]777;eval;x\a",
	"\x1b]20;/tmp/x.png\a", "\x1b]51;[\"call\",\"x\"]\a", "\x1b]83;exec sh\x1b\\", "\x1b]60\a", "\x1b]61;x\a", "\x1b]633;E;rm\a", "\x1b]697;x\a",
	"\x1b]9;7;calc\a", "\x1b]9;6;\"x\"\a", "\x1b]9;9;/tmp\a", "\x1b]9;5\a", "\x1b]9;\a", "\x1b]9\a", "\x1b]9;4;x\a",
	"\x1b]10;[menu:x]\a", "\x1b]10;/x\a", "\x1b]10\a", "\x1b]10;\a", "\x1b]4;1\a", "\x1b]4;x;red\a", "\x1b]4;\a", "\x1b]4\a",
	"\x1b]21;foreground=red\x1b\\", "\x1b]21;evil=?\x1b\\", "\x1b]21\a", "\x1b]22;?pointer\x1b\\", "\x1b]8\a", "\x1b]8;x\a",
	"\x1b]99;i=x:p=?;\x1b\\", "\x1b]99;i=x:a=report;hi\x1b\\", "\x1b]99;i=x:c=1;hi\x1b\\", "\x1b]99;x\x1b\\", "\x1b]99;p=alive;\x1b\\",
	"\x1b]133;A;click_events=1\a", "\x1b]133;C;cmdline=rm\a", "\x1b]133\a", "\x1b]133;Z\a",
	"\x1b]P0ff0000\a", "\x1b]R\a", "\x1b]l;x\x1b\\", "\x1b]Lx\x1b\\", "\x1b]Ix\x1b\\", "\x1b]\a", "\x1b];x\a", "\x1b]00;x\a", "\x1b]-1;x\a", "\x1b]99999999999;x\a",
	"\x1b]9;x\ty\a", "\x1b]8;;http://x\n\a",
	// Wrappers and remote control.
	"\x1bPtmux;\x1b\x1b]52;c;?\a\x1b\\", "\x1bPtmux;x\x1b\\", "\x1bP@kitty-cmd{\"cmd\":\"launch\"}\x1b\\",
	"\x1bP\x1b]52;c;?\a\x1b\\", "\x1bP\x1b\\", "\x1bkname\x1b\\", "\x1b^x\x1b\\", "\x1bXx\x1b\\",
	// Modes that change the language or act outside.
	"\x1b[?2l", "\x1b[?2h", "\x1b[?25;2l", "\x1b[?1;2;7l", "\x1b[?2r", "\x1b[?2s", "\x1b[?38h", "\x1b[?46h", "\x1b[?18h", "\x1b[?1001h",
	"\x1b[?1049r", "\x1b[?1042h", "\x1b[?5522h", "\x1b[2h", "\x1b[12l", "\x1b[4;2h", "\x1b[?99999h",
	"\x1b[62\"p", "\x1b G", "\x1b%@", "\x1b%8", "\x1b%/G", "\x1b<", "\x1bn", "\x1bo", "\x1b|", "\x1bN", "\x1bO", "\x1bl",
	"\x1b(K", "\x1b-A", "\x1b!x", "\x1b((B", "\x1b\\", "\x1b[[", "\x1b[1]", "\x1b[9;0]", "\x1b[1;2;3;4;5T", "\x1b[1q", "\x1b[y", "\x1b[2;1y",
	"\x1b['z", "\x1b['|", "\x1b[1$}", "\x1b[1$|", "\x1b[>8m", "\x1b[6;6n",
	// Malformed.
	"\x1b[1?h", "\x1b[?1?h", "\x1b[1<m", "\x1b[ 1q", "\x1b[1 1q", "\x1b[   q", "\x1b[1234567890C", "\x1b[1:2H",
	// 8-bit controls, raw and encoded.
	"\x80", "\x85", "\x9c", "\x9f", "\u0080", "\u0085", "\u009c", "\u009f",
	"\x18", "\x1a", "\x01\x02\x03\x04\x06\x10\x11\x12\x13\x14\x15\x16\x17\x19\x1c\x1d\x1e\x1f",
	"\x1b]0;x\x9c", "\x1b]0;x\u009c", "\x1b]0;x\u009b\a", "\x1b]0;x\xe9\a", "\x1b]0;x\xe9\x1b\\", "\x1b]0;\xe2\x9c\a",
	"\x1b]0;x\x9b\a", "\x1bPx\u009c",
	// Cancelled.
	"\x1b[1\x18", "\x1b[1\x1a", "\x1b\x18", "\x1b]0;x\x18", "\x1b]0;x\x1a", "\x1bP+q54\x18", "\x1b_Ga=T\x18",
	"\x1b[2\x051t", "\x1b\x05[21t", "\x1b[\x7f21t",
}

// What passes changed.
var rewrites = []struct {
	name, in, want string
	asked          bool
}{
	{"only the 8-bit introducer goes", "a\x9b21tb", "a21tb", false},
	{"only the encoded introducer goes", "a\u009b21tb", "a21tb", false},
	{"8-bit command", "\x9d52;c;?\x07", "52;c;?\a", false},
	{"8-bit terminator", "\x1b]0;x\x9cy", "y", false},
	{"encoded terminator", "\x1b]0;x\u009cy", "y", false},
	{"terminator within a character", "\x1b]0;\u271c\ay", "\x1b]0;\u271c\ay", false},
	{"overlong ESC", "\xc0\x9b[21t", "\xc0[21t", false},
	{"overlong CSI", "\xe0\x82\x9b21t", "\xe021t", false},
	{"character cut off", "\xe2\x82\x1b[mx", "\xe2\x1b[mx", false},
	{"character cut off by another", "\xe2\x82\xe2\x82\xac", "\xe2\xe2\x82\xac", false},
	{"character cut off at the end", "x\xf0\xa0\x82", "x\xf0\xa0", false},
	{"surrogate", "\xed\xa0\x80", "\xed\xa0", false},
	{"8-bit control after ESC", "\x1b\x9b21t", "21t", false},
	{"character after ESC", "\x1bé[21t", "é[21t", false},
	{"character within CSI", "\x1b[2é1t", "é1t", false},
	{"controls within CSI come first", "\x1b[2\r\n;3H", "\r\n\x1b[2;3H", false},
	{"controls within ESC come first", "\x1b\n7", "\n\x1b7", false},
	{"query inside CSI", "\x1b[\x056n", "\x1b[6n", true},
	{"ESC within CSI begins anew", "\x1b[2\x1b[21t\x1b[1m", "\x1b[1m", false},
	{"ESC within ESC begins anew", "\x1b\x1b[1m", "\x1b[1m", false},
	{"ESC within CSI", "\x1b[21\x1b[mt", "\x1b[mt", false},
	{"ESC within a string begins anew", "\x1b]0;x\x1b[1my\a", "\x1b[1my\a", false},
	{"ESC ESC \\ within a string", "\x1b]0;x\x1b\x1b\\y", "y", false},
	{"string within a string", "\x1b]0;x\x1b]2;y\a", "\x1b]2;y\a", false},
	{"title with controls", "\x1b]0;a\nb\x7f\tc\a", "\x1b]0;abc\a", false},
	{"title with ENQ", "\x1b]2;a\x05b\x1b\\", "\x1b]2;ab\x1b\\", false},
	{"BEL does not end a device string", "\x1bP+q54\ax\x1b\\y", "y", false},
	{"tmux unwrapped", "\x1bPtmux;\x1b\x1b[1m\x1b\\x", "\x1b[1mx", false},
	{"image cut off by a control", "\x1bPq~\x05~~\x1b\\x", "\x1bPq~\x1b\\x", false},
	{"image cut off by BEL", "\x1bPq~\a~~\x1b\\x", "\x1bPq~\x1b\\x", false},
	{"image cut off by CAN", "\x1bPq~\x18x", "\x1bPq~\x1b\\x", false},
	{"image cut off by 8-bit ST", "\x1bPq~\x9cx", "\x1bPq~\x1b\\x", false},
	{"image cut off by 8-bit CSI", "\x1bPq~\x9b21t\x1b\\x", "\x1bPq~\x1b\\x", false},
	{"image cut off by ESC", "\x1bPq~\x1b[1mx", "\x1bPq~\x1b\\\x1b[1mx", false},
	{"image cut off by a query", "\x1bPq~\x1b[21tx", "\x1bPq~\x1b\\x", false},
	{"image not ended", "\x1bPq~~", "\x1bPq~~\x1b\\", false},
	{"image not quite ended", "\x1bPq~~\x1b", "\x1bPq~~\x1b\\", false},
	{"graphics with a second part", "\x1b_Gq=2;QUJD;t=f\x1b\\x", "\x1b_Gq=2;QUJD\x1b\\x", false},
	{"file with a second header", "\x1b]1337;File=inline=1:QUJD:x\ay", "\x1b]1337;File=inline=1:QUJD\x1b\\y", false},
	{"unfinished ESC", "x\x1b", "x", false},
	{"unfinished CSI", "x\x1b[12", "x", false},
	{"unfinished command", "x\x1b]0;abc", "x", false},
	{"unfinished terminator", "x\x1b]0;abc\x1b", "x", false},
}
