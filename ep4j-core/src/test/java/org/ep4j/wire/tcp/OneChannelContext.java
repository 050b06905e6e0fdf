package org.ep4j.wire.tcp;

import java.security.SecureRandom;
import java.util.concurrent.atomic.AtomicInteger;
import javax.net.ssl.KeyManager;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLContextSpi;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.SSLServerSocketFactory;
import javax.net.ssl.SSLSessionContext;
import javax.net.ssl.SSLSocketFactory;
import javax.net.ssl.TrustManager;

/** A context of a caller that makes one channel, and throws when it is asked for another. */
final class OneChannelContext extends SSLContext {
  static final String ERROR = "this context makes one channel only";

  OneChannelContext(SSLContext inner) {
    super(new Spi(inner), inner.getProvider(), inner.getProtocol());
  }

  private static final class Spi extends SSLContextSpi {
    private final SSLContext inner;
    private final AtomicInteger made = new AtomicInteger();

    Spi(SSLContext inner) {
      this.inner = inner;
    }

    @Override
    protected void engineInit(KeyManager[] keys, TrustManager[] trust, SecureRandom random) {
      throw new UnsupportedOperationException("it is initialized");
    }

    @Override
    protected SSLEngine engineCreateSSLEngine() {
      if (made.getAndIncrement() > 0) {
        throw new IllegalStateException(ERROR);
      }
      return inner.createSSLEngine();
    }

    @Override
    protected SSLEngine engineCreateSSLEngine(String host, int port) {
      return engineCreateSSLEngine();
    }

    @Override
    protected SSLSocketFactory engineGetSocketFactory() {
      return inner.getSocketFactory();
    }

    @Override
    protected SSLServerSocketFactory engineGetServerSocketFactory() {
      return inner.getServerSocketFactory();
    }

    @Override
    protected SSLSessionContext engineGetServerSessionContext() {
      return inner.getServerSessionContext();
    }

    @Override
    protected SSLSessionContext engineGetClientSessionContext() {
      return inner.getClientSessionContext();
    }
  }
}
