// Package ahead begins to make the namespaces of a jail.
//
// For a `coffer jail` it does so while the program is being initialised: of the time that a
// start takes the kernel needs a tenth for a network namespace, and nothing has to be known
// for it but that there shall be one. The process that makes them waits then, and is told
// later what else to do there. If it was not needed after all, it ends with coffer.
//
// Like package birth, which does the same for a sandbox, it depends on as little as can be,
// so that it is initialised among the first.
package ahead
