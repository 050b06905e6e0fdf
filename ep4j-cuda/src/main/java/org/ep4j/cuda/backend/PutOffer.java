package org.ep4j.cuda.backend;

import org.jspecify.annotations.Nullable;

/**
 * What a backend has for puts of kernels beside stores.
 *
 * @param transport null if there is none here, and where none is needed
 * @param reason why there is none though it could be, with the remedy; otherwise empty
 */
public record PutOffer(@Nullable PutTransport transport, String reason) {
  /** Stores are all that the backend has, and it misses nothing. */
  public static final PutOffer STORES = new PutOffer(null, "");
}
