// Package container is the default engine: Linux namespaces, as an ordinary user,
// with nothing to install.
//
// Who is who. A program inside is the user outside, with the same id, so that files,
// git's index and agents see what they are used to. How many further ids there are
// depends on who starts it:
//
//   - An ordinary user has one id. Root of the sandbox is then the same id again,
//     seen through a nested user namespace.
//   - An ordinary user with a range in /etc/subuid and newuidmap has 65536: root and
//     the system's accounts inside are ids of that range.
//   - Root of the host must not be inside at all: 65536 ids far above all real users
//     are mapped, and the workspace is mounted with the ids shifted, so that what
//     belongs to root outside belongs to (an unprivileged) root inside.
package container
