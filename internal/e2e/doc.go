// Package e2e tests the whole: the two binaries as they are shipped, a Podman of
// each test's own, and nothing in between. A test drives the agent as its owner
// would, through manifest files, a URL, the socket and the client, and believes
// only what the podman command on the same storage shows.
//
// The tests need root and Podman, and fail where there is none.
package e2e
