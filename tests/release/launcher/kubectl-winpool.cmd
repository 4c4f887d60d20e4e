@echo off
rem Starts the plugin, or what completes its command lines, whichever name this file has. It takes the first Python
rem that there are packages for.
setlocal
rem Otherwise a python.bat or kubectl.exe in the current folder comes before those on the PATH, here and in Python.
set NoDefaultCurrentDirectoryInExePath=1
set "FITS=import sys; sys.exit(not (sys.implementation.name == 'cpython' and (3, @OLDEST@) <= sys.version_info[:2] <= (3, @NEWEST@)))"
for %%P in ("py -3" @NAMES@ "python" "python3") do (
  %%~P -I -S -c "%FITS%" >nul 2>nul && set "PYTHON=%%~P" && goto found
)
echo kubectl winpool needs Python 3.@OLDEST@ to 3.@NEWEST@ on the PATH or for the launcher py: install it, and try again 1>&2
exit /b 1
:found
%PYTHON% -I -S "%~dp0start.py" "%~n0" %*
exit /b %ERRORLEVEL%
