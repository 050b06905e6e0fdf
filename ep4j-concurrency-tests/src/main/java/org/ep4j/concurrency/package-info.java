/**
 * The steps of the protocols between ranks, each as a jcstress test of what a rank may observe of
 * another rank's stores; and the return of handles that several threads close. A forbidden outcome
 * would mean rare wrong results in a training run.
 */
@NullMarked
package org.ep4j.concurrency;

import org.jspecify.annotations.NullMarked;
