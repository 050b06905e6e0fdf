package org.ep4j.wire.tcp.pipe;

import java.io.IOException;
import java.net.Socket;
import java.nio.channels.SocketChannel;
import java.security.GeneralSecurityException;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.security.KeyStore;
import java.security.MessageDigest;
import java.security.cert.Certificate;
import java.security.cert.X509Certificate;
import java.security.spec.ECGenParameterSpec;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.SSLException;
import javax.net.ssl.TrustManager;
import javax.net.ssl.X509ExtendedTrustManager;
import org.ep4j.ErrorCode;
import org.ep4j.wire.WireException;

/**
 * TLS 1.3 between ranks of one job, without a certificate authority: a host makes a key for the
 * wire, and the proofs of the {@link Handshake} cover its certificate. A man in the middle has
 * another certificate and cannot forward the proofs of the ranks.
 */
final class Tls implements Security {
  private static final String[] PROTOCOLS = {"TLSv1.3"};

  private final SSLContext context;
  private final byte[] ownBinding;

  private Tls(SSLContext context, byte[] ownBinding) {
    this.context = context;
    this.ownBinding = ownBinding;
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
      return new Tls(context, digest(certificate));
    } catch (GeneralSecurityException | IOException e) {
      throw new WireException(
          ErrorCode.TLS_UNAVAILABLE, "this JDK cannot encrypt with TLS 1.3: " + e.getMessage(), e);
    }
  }

  @Override
  public Pipe asClient(SocketChannel channel) throws IOException {
    return new TlsPipe(channel, engine(true), null);
  }

  @Override
  public Pipe asHost(SocketChannel channel) throws IOException {
    return new TlsPipe(channel, engine(false), ownBinding);
  }

  private SSLEngine engine(boolean client) throws SSLException {
    SSLEngine engine = context.createSSLEngine();
    engine.setUseClientMode(client);
    engine.setEnabledProtocols(PROTOCOLS);
    engine.beginHandshake();
    return engine;
  }

  static byte[] digest(Certificate certificate) throws GeneralSecurityException {
    return MessageDigest.getInstance("SHA-256").digest(certificate.getEncoded());
  }

  /** Accepts every certificate: the proof of the handshake covers the certificate. */
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
