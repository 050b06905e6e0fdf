/**
 * The steps of the protocols between ranks, each as a jcstress test: what a rank may see of another
 * rank's stores. A forbidden outcome means a wrong result in somebody's training run, once a week.
 */
@NullMarked
package org.ep4j.concurrency;

import org.jspecify.annotations.NullMarked;
