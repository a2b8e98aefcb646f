"use strict";
// The player: the recorded video with its keys, or the robot's camera with a stopwatch.
const player = (() => {
  const $ = (id) => document.getElementById(id);
  const video = $("video"), seek = $("seek"), live = $("live"), blank = $("blank");
  const SPEEDS = [1, 2, 4, 0.5];
  const clockText = (seconds) => `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`;
  let shown = null, started = null, stopped = 0, onStop = () => {}, picture = 0;

  // Videos of `holdfast evaluate` show the automatic scorer's ticks at the right; crop them, or they bias the operator.
  video.addEventListener("loadedmetadata", () => {
    const panel = shown?.panel && video.videoWidth > shown.panel ? shown.panel : 0, wide = video.videoWidth - panel;
    $("frame").style.setProperty("--shape", wide / video.videoHeight);
    video.style.width = `${(100 * video.videoWidth) / wide}%`;
    seek.max = video.duration;
  });
  video.addEventListener("timeupdate", () => {
    seek.value = video.currentTime;
    $("time").textContent = `${clockText(video.currentTime)} / ${clockText(video.duration || 0)}`;
  });
  for (const name of ["play", "pause", "ended"]) {
    video.addEventListener(name, () => { $("play").firstChild.textContent = video.paused ? "Play " : "Pause "; });
  }
  video.addEventListener("error", () => {
    if (shown?.way !== "video") return;
    video.hidden = true;
    blank.hidden = false;
    blank.textContent = "The video cannot be played.";
  });
  seek.addEventListener("input", () => { video.currentTime = Number(seek.value); });
  $("play").addEventListener("click", () => player.toggle());
  $("clock").addEventListener("click", () => player.toggle());
  $("speed").addEventListener("click", () => {
    video.playbackRate = SPEEDS[(SPEEDS.indexOf(video.playbackRate) + 1) % SPEEDS.length];
    $("speed").textContent = `${String(video.playbackRate).replace("0.5", "½")}×`;
  });
  const elapsed = () => (started === null ? stopped : (performance.now() - started) / 1000);
  setInterval(() => { if (started !== null) $("elapsed").textContent = clockText(elapsed()); }, 200);

  // The rollout loop writes a picture from time to time; the server does not send an old one.
  const look = async () => {
    let wait = 1000;
    if (shown?.way === "robot" && !document.hidden) {
      try {
        const answer = await fetch(`/media/${shown.ticket}.jpg`), fresh = answer.status === 200;
        if (fresh) {
          const url = URL.createObjectURL(await answer.blob());
          URL.revokeObjectURL(picture);
          live.src = picture = url;
          wait = 150;
        }
        if (shown?.way === "robot") { live.hidden = !fresh; blank.hidden = fresh; }
      } catch { live.hidden = true; }
    }
    setTimeout(look, wait);
  };
  look();

  return {
    show(attempt, stop) {
      shown = attempt;
      onStop = stop;
      const filmed = attempt?.way === "video";
      started = null;
      stopped = 0;
      $("elapsed").textContent = "0:00";
      $("clock").firstChild.textContent = "Start ";
      $("frame").style.removeProperty("--shape");
      video.hidden = $("player").hidden = !filmed;
      $("stopwatch").hidden = filmed;
      live.hidden = true;
      blank.hidden = filmed;
      blank.textContent = "No camera picture. Watch the robot.";
      if (!filmed) { video.removeAttribute("src"); video.load(); return; }
      const rate = video.playbackRate;
      video.src = `/media/${attempt.ticket}.mp4`;
      video.defaultPlaybackRate = rate;
      video.play().catch(() => { /* the browser wants a touch first */ });
    },
    toggle() {
      if (shown?.way === "video") { if (video.paused) video.play(); else video.pause(); return; }
      if (started === null) { started = performance.now() - stopped * 1000; $("clock").firstChild.textContent = "Stop "; return; }
      stopped = elapsed();
      started = null;
      $("clock").firstChild.textContent = "Start ";
      onStop(Math.round(stopped * 100) / 100);
    },
    step(seconds) { if (shown?.way === "video") video.currentTime = Math.max(0, video.currentTime + seconds); },
    /** Seconds into the attempt, or null where nothing measures them. */
    at() {
      if (shown?.way === "video") return Math.round(video.currentTime * 100) / 100;
      return started === null ? null : Math.round(elapsed() * 100) / 100;
    },
  };
})();
