//! Clients with certificates: each speaks to the gateway through a proxy of its own, an Envoy
//! listener that wraps what it gets into TLS, as a mesh's do.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::Context as _;
use latchkey_tests::ports;
use latchkey_tests::stage::Setup;
use rcgen::string::Ia5String;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType};

/// Who signs certificates.
type Authority = CertifiedIssuer<'static, KeyPair>;

/// A client of a test.
pub(crate) struct Identity {
    name: &'static str,
    proof: Proof,
    /// Where its proxy listens.
    pub(crate) proxy: SocketAddr,
}

/// What a client shows.
#[derive(Clone, Copy)]
pub(crate) enum Proof {
    /// A certificate with these URIs, of the authority that the gateway trusts.
    Uris(&'static [&'static str]),
    /// One of the same authority with the name of a host alone.
    Host,
    /// A certificate with this URI, of somebody else.
    Strange(&'static str),
    /// None.
    Nothing,
}

// === impl Identity ===

impl Identity {
    pub(crate) fn new(name: &'static str, proof: Proof) -> Self {
        Self { name, proof, proxy: ports::free().expect("a free port") }
    }
}

/// Has the gateway ask for certificates, and puts the clients' proxies before it.
pub(crate) fn stand_before(setup: &mut Setup, clients: &[Identity]) -> anyhow::Result<()> {
    let folder = setup.folder.to_str().context("the path is not UTF-8")?.to_owned();
    let (authority, stranger) = (authority()?, authority()?);
    std::fs::write(setup.folder.join("authority.pem"), authority.pem())?;
    issue(&setup.folder, "gateway", &authority, vec![host()?])?;
    let tls = include_str!("tls.yaml").replace("FOLDER", &folder);
    // The listener's only chain: TLS before its filters.
    let tls = tls.trim_end().replace('\n', "\n      ");
    setup.ingress.replace("    - filters:\n", &format!("    - {tls}\n      filters:\n"))?;
    for Identity { name, proof, proxy } in clients {
        match proof {
            Proof::Uris(uris) => issue(&setup.folder, name, &authority, uris_of(uris)?)?,
            Proof::Host => issue(&setup.folder, name, &authority, vec![host()?])?,
            Proof::Strange(uri) => issue(&setup.folder, name, &stranger, uris_of(&[uri])?)?,
            Proof::Nothing => {}
        }
        let certificate = match proof {
            Proof::Uris(_) | Proof::Host | Proof::Strange(_) => format!(
                "{{ certificate_chain: {{ filename: {folder}/{name}.pem }}, \
                 private_key: {{ filename: {folder}/{name}.key }} }}"
            ),
            Proof::Nothing => String::new(),
        };
        let listener = include_str!("proxy_listener.yaml").replace("NAME", name);
        let listener = listener.replace("PORT", &proxy.port().to_string());
        setup.ingress.insert_before("- name: ingress", &listener)?;
        let cluster = include_str!("proxy_cluster.yaml").replace("NAME", name);
        let cluster = cluster.replace("PORT", &setup.address.port().to_string());
        let cluster = cluster.replace("CERTIFICATE", &certificate).replace("FOLDER", &folder);
        setup.inner.insert_before("- name: payments", &cluster)?;
    }
    Ok(())
}

fn authority() -> anyhow::Result<Authority> {
    let mut params = CertificateParams::default();
    // Another name than those that it signs for: who signs for itself is nobody's.
    params.distinguished_name.push(DnType::CommonName, "authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    Ok(CertifiedIssuer::self_signed(params, KeyPair::generate()?)?)
}

fn host() -> anyhow::Result<SanType> {
    Ok(SanType::DnsName(Ia5String::try_from("payments.example")?))
}

/// The name of a host first, which is no URI.
fn uris_of(uris: &[&str]) -> anyhow::Result<Vec<SanType>> {
    let uris = uris.iter().map(|uri| Ok(SanType::URI(Ia5String::try_from(*uri)?)));
    std::iter::once(host()).chain(uris).collect()
}

/// A new certificate and its key as files in `folder`.
fn issue(
    folder: &Path,
    name: &str,
    authority: &Authority,
    names: Vec<SanType>,
) -> anyhow::Result<()> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.subject_alt_names = names;
    let certificate = params.signed_by(&key, authority)?;
    std::fs::write(folder.join(format!("{name}.pem")), certificate.pem())?;
    std::fs::write(folder.join(format!("{name}.key")), key.serialize_pem())?;
    Ok(())
}
