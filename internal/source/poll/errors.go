package poll

import (
	"compress/flate"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"time"
)

// fault is something wrong with an answer, in words of ours. What a library says
// may have in it secrets of the request, and ports and times that make each
// failure a new one to record.
type fault string

func (f fault) Error() string { return string(f) }

func faultf(format string, args ...any) error { return fault(fmt.Sprintf(format, args...)) }

// explain says why there is no whole answer.
func (f *fetcher) explain(at *url.URL, err error) error {
	var known fault
	if errors.As(err, &known) {
		return known
	}
	var corrupt flate.CorruptInputError
	if errors.As(err, &corrupt) || errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) {
		return fault("its answer says that it is packed with gzip, and is not")
	}
	if err := certificateFault(err); err != nil {
		return err
	}
	return networkFault(at.Host, f.timeout, err)
}

func networkFault(host string, timeout time.Duration, err error) error {
	var dns *net.DNSError
	var errno syscall.Errno
	var network net.Error
	var noTLS tls.RecordHeaderError
	var alert tls.AlertError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return faultf("the host name %s is not known", dns.Name)
	case errors.As(err, &dns):
		return faultf("the host name %s can't be looked up: no name server answers", dns.Name)
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return faultf("there is no complete answer within %s", timeout)
	case errors.As(err, &errno):
		return faultf("%s can't be reached: %s", host, errno.Error())
	case errors.As(err, &noTLS):
		return faultf("%s does not speak TLS; give an http URL or another port", host)
	case errors.As(err, &alert):
		return faultf("%s refuses the TLS connection: %s", host, alert.Error())
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fault("the answer broke off")
	default:
		return faultf("%s does not answer in HTTP, or a proxy on the way refuses", host)
	}
}

// certificateFault is nil when the certificate is not to blame.
func certificateFault(err error) error {
	var verification *tls.CertificateVerificationError
	if !errors.As(err, &verification) {
		return nil
	}
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &unknown):
		return fault("its certificate is signed by an unknown authority; add that to the system's trusted certificates")
	case errors.As(err, &name):
		return faultf("its certificate is not for %s", name.Host)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return faultf("its certificate is valid from %s to %s, which it is not by this machine's clock",
			invalid.Cert.NotBefore.Format(time.RFC3339), invalid.Cert.NotAfter.Format(time.RFC3339))
	default:
		return fault("its certificate can't be trusted")
	}
}

// statusFault says what an answer of that status calls for.
func statusFault(status int) error {
	text := fmt.Sprintf("it answers %d %s", status, http.StatusText(status))
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		text += "; check --manifest-url-header"
	case http.StatusNotFound, http.StatusGone:
		text += "; check --manifest-url"
	}
	return fault(text)
}
