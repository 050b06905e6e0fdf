package org.ep4j.wire.tcp.pipe;

import java.io.IOException;
import java.net.Socket;
import java.nio.channels.SocketChannel;
import java.security.GeneralSecurityException;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.X509Certificate;
import java.security.spec.ECGenParameterSpec;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.SSLException;
import javax.net.ssl.TrustManager;
import javax.net.ssl.X509ExtendedTrustManager;
import org.ep4j.error.ErrorCode;
import org.ep4j.wire.WireException;

/**
 * TLS 1.3 between ranks of one job. The proofs of the {@link Handshake} cover keying material that
 * both ends export from their channel. A man in the middle has two channels with different keying
 * material, and cannot forward the proofs of the ranks.
 *
 * <p>Therefore no certificate authority is needed: by default each rank makes a key for the wire,
 * and accepts every certificate. With a context of the caller, both ends present certificates, and
 * the context decides in addition to the proof.
 */
final class Tls implements Security {
  private static final String[] PROTOCOLS = {"TLSv1.3"};

  private final SSLContext context;

  /** Whether the host demands a certificate of the client. */
  private final boolean mutual;

  private Tls(SSLContext context, boolean mutual) {
    this.context = context;
    this.mutual = mutual;
  }

  /**
   * With certificates of the caller.
   *
   * @throws WireException if the context cannot make channels
   */
  static Tls of(SSLContext context) {
    Tls tls = new Tls(context, true);
    try {
      // Sends nothing, and fails as that of each channel would.
      tls.engine(true);
    } catch (SSLException | IllegalStateException e) {
      throw new WireException(
          ErrorCode.TLS_UNAVAILABLE,
          "the sslContext of this rank cannot open TLS 1.3 channels (%s): pass one that is initialized, of a provider with TLS 1.3"
              .formatted(e.getMessage()),
          e);
    }
    return tls;
  }

  static Tls create() {
    try {
      KeyPairGenerator generator = KeyPairGenerator.getInstance("EC");
      generator.initialize(new ECGenParameterSpec("secp256r1"));
      KeyPair keys = generator.generateKeyPair();
      X509Certificate certificate = SelfSigned.of(keys);
      KeyStore store = KeyStore.getInstance("PKCS12");
      store.load(null, null);
      char[] none = new char[0];
      store.setKeyEntry("ep4j", keys.getPrivate(), none, new Certificate[] {certificate});
      KeyManagerFactory managers =
          KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
      managers.init(store, none);
      SSLContext context = SSLContext.getInstance("TLSv1.3");
      context.init(managers.getKeyManagers(), new TrustManager[] {new BoundByProof()}, null);
      return new Tls(context, false);
    } catch (GeneralSecurityException | IOException e) {
      throw new WireException(
          ErrorCode.TLS_UNAVAILABLE, "this JDK cannot encrypt with TLS 1.3: " + e.getMessage(), e);
    }
  }

  @Override
  public Pipe asClient(SocketChannel channel) throws IOException {
    return new TlsPipe(channel, engine(true));
  }

  @Override
  public Pipe asHost(SocketChannel channel) throws IOException {
    return new TlsPipe(channel, engine(false));
  }

  private SSLEngine engine(boolean client) throws SSLException {
    SSLEngine engine = context.createSSLEngine();
    engine.setUseClientMode(client);
    engine.setNeedClientAuth(mutual);
    try {
      engine.setEnabledProtocols(PROTOCOLS);
    } catch (IllegalArgumentException e) {
      throw new SSLException("the SSLContext of this wire lacks TLS 1.3", e);
    }
    engine.beginHandshake();
    return engine;
  }

  /** Accepts every certificate: the proof of the handshake covers the channel. */
  private static final class BoundByProof extends X509ExtendedTrustManager {
    private static final X509Certificate[] NO_CERTIFICATES = {};

    @Override
    public void checkClientTrusted(X509Certificate[] chain, String type) {}

    @Override
    public void checkClientTrusted(X509Certificate[] chain, String type, Socket socket) {}

    @Override
    public void checkClientTrusted(X509Certificate[] chain, String type, SSLEngine engine) {}

    @Override
    public void checkServerTrusted(X509Certificate[] chain, String type) {}

    @Override
    public void checkServerTrusted(X509Certificate[] chain, String type, Socket socket) {}

    @Override
    public void checkServerTrusted(X509Certificate[] chain, String type, SSLEngine engine) {}

    @Override
    public X509Certificate[] getAcceptedIssuers() {
      return NO_CERTIFICATES;
    }
  }
}
