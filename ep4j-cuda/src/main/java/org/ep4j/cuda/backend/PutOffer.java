package org.ep4j.cuda.backend;

import org.jspecify.annotations.Nullable;

/**
 * A backend's transport for puts of kernels besides stores.
 *
 * @param transport null if unavailable or not needed
 * @param reason why an expected transport is unavailable, with the remedy; otherwise empty
 */
public record PutOffer(@Nullable PutTransport transport, String reason) {
  /** The backend uses stores only and needs no other transport. */
  public static final PutOffer STORES = new PutOffer(null, "");
}
