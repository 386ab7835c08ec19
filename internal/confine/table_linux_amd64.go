package confine

import "golang.org/x/sys/unix"

const audit = unix.AUDIT_ARCH_X86_64

// ownRules are about the older calls of this architecture, most of which have a successor with "at".
var ownRules = []rule{
	{allow, []int{
		unix.SYS_STAT, unix.SYS_LSTAT, unix.SYS_POLL, unix.SYS_ACCESS, unix.SYS_PIPE, unix.SYS_SELECT,
		unix.SYS_DUP2, unix.SYS_PAUSE, unix.SYS_ALARM, unix.SYS_FORK, unix.SYS_VFORK, unix.SYS_GETDENTS,
		unix.SYS_RENAME, unix.SYS_MKDIR, unix.SYS_RMDIR, unix.SYS_LINK, unix.SYS_UNLINK, unix.SYS_SYMLINK,
		unix.SYS_READLINK, unix.SYS_GETPGRP, unix.SYS_UTIME, unix.SYS_MODIFY_LDT, unix.SYS_ARCH_PRCTL,
		unix.SYS_TIME, unix.SYS_SET_THREAD_AREA, unix.SYS_GET_THREAD_AREA, unix.SYS_EPOLL_CREATE,
		unix.SYS_EPOLL_CTL_OLD, unix.SYS_EPOLL_WAIT_OLD, unix.SYS_EPOLL_WAIT, unix.SYS_UTIMES,
		unix.SYS_INOTIFY_INIT, unix.SYS_FUTIMESAT, unix.SYS_SIGNALFD, unix.SYS_EVENTFD, unix.SYS_URETPROBE,
	}},
	{refuse, []int{
		unix.SYS_USELIB, unix.SYS_USTAT, unix.SYS_SYSFS, unix.SYS__SYSCTL, unix.SYS_IOPL, unix.SYS_IOPERM,
		unix.SYS_CREATE_MODULE, unix.SYS_GET_KERNEL_SYMS, unix.SYS_QUERY_MODULE, unix.SYS_GETPMSG, unix.SYS_PUTPMSG,
		unix.SYS_AFS_SYSCALL, unix.SYS_TUXCALL, unix.SYS_SECURITY, unix.SYS_VSERVER,
	}},
	{open1, []int{unix.SYS_OPEN}},
	{mode1, []int{unix.SYS_CREAT, unix.SYS_MKNOD}},
	{chmod1, []int{unix.SYS_CHMOD}},
	{owners, []int{unix.SYS_CHOWN, unix.SYS_LCHOWN}},
}
